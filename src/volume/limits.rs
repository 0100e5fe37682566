//! What a file system cannot hold, in one line.

use jiff::Timestamp;

use crate::state::reference_time::MovedTimes;
use crate::sys::stat::Time;
use crate::sys::traits::{NameTraits, TimeTraits, Traits};

/// What `traits` and times that have `moved` mean for a copy, in words; `None` if there is nothing to tell.
pub fn limits(traits: &Traits, moved: &MovedTimes) -> Option<String> {
    let Traits { names, times, links, permissions, owners, syncs_names, .. } = traits;
    let Traits { outward_links, keeps_times, .. } = traits;
    let mut told = Vec::new();
    told.extend(of_times(times));
    told.extend(of_names(names));
    let absent = [(*links, "symbolic links"), (*permissions, "permissions"), (*owners, "owners")];
    let absent: Vec<&str> =
        absent.into_iter().filter_map(|(has, what)| (!has).then_some(what)).collect();
    if !absent.is_empty() {
        told.push(format!("no {}", absent.join(", no ")));
    }
    if !outward_links {
        told.push("no links that lead out of it".to_owned());
    }
    if !keeps_times {
        told.push(
            "times of new files that change when they are read, so content decides".to_owned(),
        );
    }
    if !syncs_names {
        told.push("names that a power cut may lose, because it cannot sync directories".to_owned());
    }
    told.extend(moved.by.iter().filter(|_| moved.is_new).map(|secs| {
        let (sign, minutes) = (if *secs < 0 { '-' } else { '+' }, secs.unsigned_abs() / 60);
        format!(
            "times that moved by {sign}{}:{:02} h since earlier runs set them (daylight saving, or the zone of \
             another machine), and count as the same",
            minutes / 60,
            minutes % 60
        )
    }));
    (!told.is_empty()).then(|| told.join("; "))
}

fn of_times(times: &TimeTraits) -> Option<String> {
    let Some(step) = times.step else { return Some("times that cannot be set".to_owned()) };
    let day = |time: Time| Some(Timestamp::from_second(time.secs).ok()?.strftime("%F").to_string());
    // Times of now and of long ago; 2106 is where 32 bits of seconds end.
    let (epoch, ample) = (0, i64::from(u32::MAX));
    let mut told = String::new();
    if step >= 1_000_000_000 {
        told.push_str(&format!(" in steps of {} s", step / 1_000_000_000));
    }
    // Where times come out as some time or other, there is no bound.
    if times.earliest.secs > epoch && times.earliest.nanos == 0 {
        told.push_str(&format!(" from {}", day(times.earliest)?));
    }
    if times.latest.secs < ample && times.latest.nanos == 0 {
        told.push_str(&format!(" to {}", day(times.latest)?));
    }
    if times.earliest == times.latest {
        told.push_str(", some of which become others");
    }
    (!told.is_empty()).then(|| format!("times{told}"))
}

fn of_names(names: &NameTraits) -> Option<String> {
    let NameTraits { folds_case, folds_forms, unicode, bytes, signs, ends, devices, longest } =
        *names;
    let not_all = [
        (unicode, "that are not ASCII".to_owned()),
        (bytes || !unicode, "that are not UTF-8".to_owned()),
        (signs, "with control characters or one of \"*:<>?\\|".to_owned()),
        (ends, "with a blank or a dot at an end".to_owned()),
        (devices, "of devices of Windows".to_owned()),
        (longest >= 250, format!("longer than {longest} bytes")),
    ];
    let not_all: Vec<String> =
        not_all.into_iter().filter_map(|(all, what)| (!all).then_some(what)).collect();
    let case = folds_case.then(|| "names without letter case".to_owned());
    let forms = folds_forms.then(|| "names without forms of Unicode".to_owned());
    let names = (!not_all.is_empty()).then(|| format!("not all names {}", not_all.join(", ")));
    let told: Vec<String> = case.into_iter().chain(forms).chain(names).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told() {
        assert_eq!(limits(&Traits::FAITHFUL, &MovedTimes::default()), None);
        let at = |secs| Time { secs, nanos: 0 };
        let fat = Traits {
            names: NameTraits { folds_case: true, bytes: false, ends: false, ..NameTraits::EVERY },
            times: TimeTraits {
                step: Some(2_000_000_000),
                earliest: at(315_532_800),
                latest: at(4_354_819_198),
                are_of_fat: false,
            },
            links: false,
            owners: false,
            ..Traits::FAITHFUL
        };
        assert_eq!(
            limits(&fat, &MovedTimes { by: vec![-3600], is_new: true }).unwrap(),
            "times in steps of 2 s from 1980-01-01; names without letter case; not all names that are not UTF-8, \
             with a blank or a dot at an end; no symbolic links, no owners; times that moved by -1:00 h since \
             earlier runs set them (daylight saving, or the zone of another machine), and count as the same"
        );
    }
}
