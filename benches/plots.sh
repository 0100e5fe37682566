#!/usr/bin/env bash
# Draws what benches/compare.sh or benches/scaling.sh measured: a picture (SVG) for each workload, with machine and date in it.
#
#   benches/plots.sh [COMPARE.json] [DIR]     (target/compare/compare.json, target/plots)
#
# Each row is a group of bars, one a contender: its length is the median time in relation to the slowest of the
# group, and the thin line goes from the shortest run to the longest. Rows without figures are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
JSON=${1:-target/compare/compare.json} DIR=${2:-target/plots}
mkdir -p "$DIR"
for workload in $(jq -r '[.rows[].row | split("/")[1]] | unique[]' "$JSON"); do
    jq -r --arg workload "$workload" '
        def esc: gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub(">"; "&gt;");
        def px: . * 10 | round / 10;
        def seconds: if . >= 10 then (. * 10 | round / 10) else (. * 1000 | round / 1000) end | tostring + " s";
        def text(x; y; style; words): "<text x=\"\(x | px)\" y=\"\(y | px)\" \(style)>\(words | esc)</text>";
        . as $all
        | 190 as $left | 380 as $width | 18 as $step
        | [.rows[] | select((.row | split("/")[1]) == $workload)
            | .contenders |= map(select(.median)) | select(.contenders | length > 0)] as $rows
        | (reduce $rows[] as $row ({y: 52, out: []};
            ([$row.contenders[] | .median, (.max // 0)] | max) as $most
            | .out += [text(10; .y; "class=\"row\""; ($row.row | split("/") | "\(.[0]), \(.[2]), \(.[3]): \($row.files) files, \($row.bytes / 1048576 | round) MiB"))]
            | .y += 8
            | reduce $row.contenders[] as $c (.;
                ($c.median / $most * $width) as $length
                | (if $c.name | startswith("dircopy") then "ours" else "other" end) as $class
                | .out += [
                    text($left - 8; .y + 12; "class=\"name\""; $c.name),
                    "<rect x=\"\($left)\" y=\"\(.y + 2 | px)\" width=\"\($length | px)\" height=\"13\" class=\"\($class)\"/>",
                    "<line x1=\"\($left + $c.min / $most * $width | px)\" x2=\"\($left + $c.max / $most * $width | px)\" y1=\"\(.y + 8.5 | px)\" y2=\"\(.y + 8.5 | px)\"/>",
                    text($left + ([$length, $c.max / $most * $width] | max) + 6; .y + 12; "class=\"value\"";
                        ($c.median | seconds) + (if $c.ratio then "  ×" + ($c.ratio * 100 | round / 100 | tostring) else "" end))]
                | .y += $step)
            | .y += 26)) as $drawn
        | .machine as $m
        | "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"\($drawn.y + 10)\" viewBox=\"0 0 760 \($drawn.y + 10)\">",
          "<style>text{font:12px sans-serif;fill:#222}.title{font:bold 15px sans-serif}.row{font-weight:bold}",
          ".name{text-anchor:end}.value,.small{fill:#555}.small{font-size:10px}",
          ".ours{fill:#2b6cb0}.other{fill:#b8c2cc}line{stroke:#222;stroke-width:1}</style>",
          "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
          text(10; 20; "class=\"title\""; $workload),
          text(10; 34; "class=\"small\""; "\($m.date[:10]), \($m.cores) × \($m.cpu), \($m.memory), \($m.kernel); medians of \($m.rounds) rounds; × is relative to " + ($m.beside // "cp") + (if $m.quick then "; QUICK: these figures mean nothing" else "" end)),
          $drawn.out[], "</svg>"' "$JSON" >"$DIR/$workload.svg"
    echo "written: $DIR/$workload.svg"
done
