#!/bin/sh
# Profiles this machine for 30 plans over 5 models and lays measured iterations over predicted ones.
#   experiments/cpu-accuracy/run.sh [FOLDER] [rounds]     FOLDER (default out/cpu-accuracy) gets plans, profile and results
set -eu
unity=${UNITY:-build/release/bin/unity}
out=${1:-out/cpu-accuracy}
rounds=${2:-3}
mkdir -p "$out/plans"

# One plan: name, devices, strategy, seed, then the model with its sizes.
plan() {
  name=$1 devices=$2 strategy=$3 seed=$4
  shift 4
  file="$out/plans/$name-$devices-$strategy-$seed.json"
  [ -f "$file" ] || "$unity" search "$@" --topology laptop --devices "$devices" --strategy "$strategy" --seed "$seed" \
    --budget 60 -o "$file" > /dev/null
}

# Six plans of a model: on one, two and four devices; by batch, by hand, by search, by chance.
model() {
  name=$1
  shift
  plan "$name" 1 data-parallel 1 "$@"
  plan "$name" 2 data-parallel 1 "$@"
  plan "$name" 4 data-parallel 1 "$@"
  plan "$name" 2 expert 1 "$@" || plan "$name" 2 random 3 "$@"
  plan "$name" 2 random 1 "$@"
  plan "$name" 4 random 2 "$@"
}

model mlp mlp --global-batch 64 --layers 4 --option hidden=512
model bert bert-large --global-batch 4 --layers 2 --seq-len 32 --option hidden=128 --option heads=2 --option vocab=1024
model dlrm dlrm --global-batch 128 --option rows=5000
model resnet resnet-50 --global-batch 4 --option image=64 --option blocks=1 --option divisor=4
model gpt gpt2-small --global-batch 4 --layers 2 --seq-len 64 --option hidden=128 --option heads=2 --option vocab=1024

"$unity" profile "$out"/plans/*.json --curves -o "$out/profile.yaml"
"$unity" validate "$out"/plans/*.json --rounds "$rounds" --steps 41 --quantile 0.05 --json > "$out/without-profile.json"
"$unity" validate "$out"/plans/*.json --rounds "$rounds" --steps 41 --quantile 0.05 --profile "$out/profile.yaml" --json > "$out/with-profile.json"
"$unity" validate "$out"/plans/*.json --rounds "$rounds" --steps 41 --quantile 0.05 --profile "$out/profile.yaml"
