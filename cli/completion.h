// What may stand at the cursor of a shell, told from the definitions that --help prints, and the reference made of
// them.
//
// The scripts for bash, zsh and fish ask `unity __complete WORD...`: the words after `unity`, the last one up to the
// cursor. It prints a candidate per line, with a description after a tab where there is one, and last a line that
// begins with ':' where files (":files yaml json", with these endings, or any) or folders (":folders") may stand there,
// too.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace unity::cli {

std::string completions(const CLI::App& app, const std::vector<std::string>& words);

// docs/reference.md: every command with its arguments, options and examples.
std::string reference(const CLI::App& app);

}  // namespace unity::cli
