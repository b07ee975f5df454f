#!/usr/bin/env bash
# Generates the rule library: generate.sh [--install | --exhaustive] [-j THREADS]. See README.md.
set -euo pipefail
root="$(cd "$(dirname "$0")/../.." && pwd)"
unity="${UNITY:-$root/build/release/bin/unity}"
output="$root/out/rules"
install=false
arguments=()
for argument in "$@"; do
  case "$argument" in
    --install) install=true ;;
    --exhaustive) output="$root/out/exhaustive-rules" arguments+=("$argument") ;;
    *) arguments+=("$argument") ;;
  esac
done
"$unity" rules generate -o "$output" --resume "$output.work" "${arguments[@]}"
$install || exit 0

library="$root/core/rewrite/rules"
"$unity" rules verify "$output"/*.rules "$library"/{definitions,named}.rules --model all --write
for file in "$library"/*; do
  case "$(basename "$file")" in
    definitions.* | named.* | import.*) ;;
    *) rm "$file" ;;
  esac
done
cp "$output"/*.{rules,proofs} "$library"
