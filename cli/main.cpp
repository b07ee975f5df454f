// The `unity` command. Exit codes: 0 done, 1 failed, 2 wrong usage or input. Errors are one line on stderr.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>

#include <CLI/CLI.hpp>
#ifdef UNITY_MIMALLOC
#include <mimalloc.h>
#endif

#include "cli/build_info.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace unity::cli {

CLI::App* add_command(CLI::App& app, const char* name, const char* description, const char* examples) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer(std::string("Examples:\n") + examples);
  return command;
}

namespace {

constexpr int kDone = 0, kFailed = 1, kWrongInput = 2;

std::string one_line(std::string text) {
  // A message may quote a file, whose control characters are no business of the terminal.
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

int report(int code, const std::string& message) {
  std::fflush(stdout);  // what was printed before comes before, where both go to one file
  // Where that cannot be written either, the exit code is what there is.
  std::fputs(fmt::format("unity: error: {}\n", one_line(message)).c_str(), stderr);
  return code;
}

int unprinted() { return report(kFailed, fmt::format("standard output cannot be written: {}", std::strerror(errno))); }

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// CLI11's message, preceded by the command and followed by the nearest valid name where a name was not known.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  std::vector<CLI::App*> called = app.get_subcommands();
  std::vector<std::string> unknown = app.remaining(true);
  if (called.empty()) {
    if (unknown.empty()) return fmt::format("no command given, expected one of {}", join(command_names(app)));
    bool option = unknown.front().rfind('-', 0) == 0;
    return fmt::format("unknown {} '{}'{}", option ? "option" : "command", unknown.front(),
                       suggestion(unknown.front(), option ? option_names(app) : command_names(app)));
  }
  while (!called.front()->get_subcommands().empty()) called = called.front()->get_subcommands();
  const CLI::App& command = *called.front();
  if (!unknown.empty()) {
    std::string name = unknown.front().substr(0, unknown.front().find('='));
    if (name.rfind('-', 0) == 0)
      return fmt::format("{}: unknown option '{}'{}", command.get_name(), name,
                         suggestion(name, option_names(command)));
    return fmt::format("{}: unexpected argument '{}'; see unity {} --help", command.get_name(), name,
                       command.get_name());
  }
  return fmt::format("{}: {}", command.get_name(), error.what());
}

// Names of files get into plans and results, which are JSON.
void refuse_other_encodings(const std::vector<std::string_view>& arguments) {
  for (std::string_view argument : arguments)
    if (first_not_utf8(argument)) throw_input_error("argument '{}': found bytes that are not UTF-8", argument);
}

// An empty text, as of a variable of the shell that is not set, would count as an option not given.
void refuse_empty(CLI::App& command) {
  for (CLI::Option* option : command.get_options())
    if (option->nonpositional() && option->get_items_expected_min() > 0)
      option->check(
          [](const std::string& text) { return std::string(text.empty() ? "found '', expected a value" : ""); });
  for (CLI::App* inner : command.get_subcommands({})) refuse_empty(*inner);
}

int run(int argc, char** argv) {
  CLI::App app("Unity finds, explains, predicts and runs parallel plans for training neural networks.", "unity");
  app.set_version_flag("--version", build_info, "Print version, commit, build and optional parts, and exit");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.footer("Every command has its own --help with examples. Exit codes: 0 done, 1 failed, 2 wrong usage or input.");
#define UNITY_COMMAND(name) add_##name(app);
#include "cli/commands.def"
#undef UNITY_COMMAND
  refuse_empty(app);
  app.parse_complete_callback([&app] {  // before any command begins
    CLI::App* called = &app;
    while (!called->get_subcommands().empty()) called = called->get_subcommands().front();
    if (called->get_name() != "profile") refuse_overwriting(*called);  // which adds to what it reads
  });
  try {
    if (argc > 1 && std::string_view(argv[1]) == "__complete")  // asked for by the scripts of `unity completion`
      fmt::print("{}", completions(app, {argv + 2, argv + argc}));
    else if (argc == 2 && std::string_view(argv[1]) == "__reference")  // scripts/reference
      fmt::print("{}", reference(app));
    else
      refuse_other_encodings({argv, argv + argc}), app.parse(argc, argv);
    if (std::fflush(stdout) != 0) return unprinted();
    return kDone;
  } catch (const CLI::Success& help_or_version) {
    const int code = app.exit(help_or_version);
    std::cout.flush();
    return std::cout ? code : unprinted();
  } catch (const CLI::ParseError& error) {
    return report(kWrongInput, usage_message(app, error));
  } catch (const InputError& error) {
    return report(kWrongInput, error.what());
  } catch (const InternalError& error) {
    return report(kFailed, fmt::format("internal: {}", error.what()));
  } catch (const std::bad_alloc&) {
    return report(kFailed, "out of memory");
  } catch (const std::exception& error) {
    if (std::ferror(stdout)) return unprinted();
    return report(kFailed, error.what());
  }
}

}  // namespace
}  // namespace unity::cli

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond a limit (ulimit -f) is one that cannot be written, with a message
#ifdef UNITY_MIMALLOC
  // A search frees and takes the same memory all the time: given back to the system, it comes page by page again.
  mi_option_set_default(mi_option_allow_decommit, 0);
  // And goes through more of it than the tables of pages hold: pages are large where the system has such (searches get
  // 2 to 9% shorter), also of threads that are new.
  mi_option_set_default(mi_option_large_os_pages, 1);
  mi_option_set_default(mi_option_eager_commit_delay, 0);
#endif
  return unity::cli::run(argc, argv);
}
