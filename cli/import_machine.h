// unity import nvidia-smi-topo, nccl-topo, nccl-tests: machines of other programs as topology files.
#pragma once

namespace CLI {
class App;
}

namespace unity::cli {

// Adds the three as subcommands of `import`.
void add_machine_imports(CLI::App& import);

}  // namespace unity::cli
