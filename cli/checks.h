// What options of the command line take: anything else is refused, with what was found and what is expected.
#pragma once

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace unity::cli {

// A number above 0.
CLI::Option* above_zero(CLI::Option* option);

// A number from `least` to `most`.
CLI::Option* between(double least, double most, CLI::Option* option);

// The path of a file or folder to write: not "-", which would make a file of that name.
CLI::Option* output_file(CLI::Option* option);

// InputError where such a file is one that the command reads, or that another of its options writes.
void refuse_overwriting(const CLI::App& command);

}  // namespace unity::cli
