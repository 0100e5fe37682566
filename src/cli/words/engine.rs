//! Where engines say which task of an array a process is.

/// The variables, and with which number each begins.
const VARIABLES: [(&str, u32); 4] = [
    ("SLURM_ARRAY_TASK_ID", 0),
    ("JOB_COMPLETION_INDEX", 0),
    ("PBS_ARRAY_INDEX", 0),
    ("SGE_TASK_ID", 1),
];

/// The number that the engine gives, from 0; `None` if no variable is set. The error says what is in one.
pub fn task() -> Result<Option<u32>, String> {
    for (variable, first) in VARIABLES {
        let Ok(value) = std::env::var(variable) else { continue };
        // Grid Engine says so outside of arrays.
        if value == "undefined" {
            continue;
        }
        let number = value.parse::<u32>().ok().and_then(|number| number.checked_sub(first));
        let none = || format!("{variable} is {value:?}, which is no shard");
        return number.ok_or_else(none).map(Some);
    }
    Ok(None)
}

/// The names of the variables, for a sentence.
pub fn variables() -> String {
    VARIABLES.map(|(name, _)| name).join(", ")
}
