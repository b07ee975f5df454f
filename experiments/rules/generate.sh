#!/usr/bin/env bash
# Generates the rule library: generate.sh [--exhaustive] [-j THREADS]. See README.md.
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
unity="${UNITY:-$root/build/release/bin/unity}"
output="$root/out/rules"
for argument in "$@"; do
  [[ "$argument" == --exhaustive ]] && output="$root/out/exhaustive-rules"
done
exec "$unity" rules generate -o "$output" --resume "$root/out/rules.work" "$@"
