#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# run_fuzzers.sh BUILD SECONDS: each libFuzzer program of the build for SECONDS.
#
# New inputs go to BUILD/corpus/<topic>; an input that crashes stays in BUILD/<topic>-crash-*, and
# belongs into tests/fuzz/corpus/<topic> together with the fix.
set -uo pipefail
cd "$(dirname "$0")/.."

build=$1
seconds=$2
failed=0 n_programs=0
for program in "$build"/tests/fuzz/fuzz_*; do
        [ -f "$program" ] && [ -x "$program" ] || continue
        topic=${program##*/fuzz_}
        mkdir -p "$build/corpus/$topic"
        n_programs=$((n_programs + 1))
        # A server's threads allocate between two inputs: leaks are looked for at the end of the program alone.
        leaks=1
        grep -q whole_server "tests/fuzz/fuzz_$topic.c" && leaks=0
        echo "== $topic, $seconds s"
        "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
                -detect_leaks=$leaks -print_final_stats=1 -verbosity=0 -artifact_prefix="$build/$topic-" \
                "$build/corpus/$topic" "tests/fuzz/corpus/$topic" || {
                echo "FAILED: $topic"
                failed=$((failed + 1))
        }
done
echo "$n_programs fuzzers, $failed failed"
[ "$failed" -eq 0 ] && [ "$n_programs" -gt 0 ]
