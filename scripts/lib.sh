# Set-up shared by quickstart and test: Debian packages, configuration, build. Sourced by scripts that `set -euo pipefail`.

UNITY_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
UNITY_BUILD=$UNITY_ROOT/build/release
UNITY=$UNITY_BUILD/bin/unity

# The last two lines are the GUI's, which is built where they are, and tested without a display.
UNITY_PACKAGES=(g++ cmake ninja-build ccache lld pkg-config dpkg-dev file
  libabsl-dev libfmt-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev zlib1g-dev libjpeg-dev libpng-dev
  libonnx-dev libprotobuf-dev protobuf-compiler libtinyxml2-dev libmimalloc-dev
  libopenmpi-dev openmpi-bin libopenblas-dev libdnnl-dev ocl-icd-opencl-dev opencl-headers
  libz3-dev catch2 librapidcheck-dev graphviz
  libimgui-dev libglfw3-dev libgl-dev libegl-dev libgl1-mesa-dri xvfb libfreetype-dev libstb-dev libgraphviz-dev
  fonts-roboto-unhinted fonts-jetbrains-mono fonts-font-awesome)

say() { printf '\n== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

missing_packages() {
  local package
  for package in "${UNITY_PACKAGES[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || printf '%s\n' "$package"
  done
}

# Installs what is missing, and asks for rights only then. Elsewhere than on Debian the configuration says what it misses.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    printf 'warning: not a Debian system; these packages are expected: %s\n' "${UNITY_PACKAGES[*]}" >&2
    return
  fi
  local missing as_root=()
  mapfile -t missing < <(missing_packages)
  ((${#missing[@]})) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "packages are missing and neither root nor sudo is there to install them; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "Installing ${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# build [TARGET...]: configures the release preset and builds the targets, all without an argument.
build() {
  local target targets=()
  for target in "$@"; do targets+=(--target "$target"); done
  say "Building in ${UNITY_BUILD#"$UNITY_ROOT"/}"
  (cd "$UNITY_ROOT" && cmake --preset release && cmake --build --preset release "${targets[@]}")
}
