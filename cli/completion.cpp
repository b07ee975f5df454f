#include "cli/completion.h"

#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/machine/topology.h"
#include "core/models/models.h"
#include "core/ops/operator.h"
#include "core/rewrite/derive.h"
#include "core/rewrite/library.h"
#include "core/search/search.h"

namespace unity::cli {
namespace {

struct Candidate {
  std::string word, description;
};
using Candidates = std::vector<Candidate>;

Candidates named(const std::vector<std::string>& names) {
  Candidates list;
  for (const std::string& name : names) list.push_back({name, {}});
  return list;
}

Candidates models() {
  Candidates list;
  for (const std::string& name : model_names()) list.push_back({name, model_info(name).description});
  return list;
}

Candidates known_strategies() {
  Candidates list;
  for (const StrategyInfo& strategy : strategies()) list.push_back({strategy.name, strategy.description});
  return list;
}

Candidates rules() {
  Candidates list;
  for (const std::vector<Rule>& some : {rule_library(), import_rules(), derived_rules()})
    for (const Rule& rule : some) list.push_back({rule.name, {}});
  return list;
}

Candidates operators() {
  Candidates list;
  for (const Operator* op : all_operators()) list.push_back({std::string(op->name()), {}});
  return list;
}

Candidates shown() {
  Candidates list = models();
  for (const Candidates& more : {named(topology_names()), rules()}) list.insert(list.end(), more.begin(), more.end());
  return list;
}

// What the value of an option, or an argument, may be. `command` is empty where it is the same in all commands.
struct Values {
  const char* command;
  const char* name;        // --option, or the argument as --help has it
  Candidates (*names)();   // or null
  const char* words;       // separated by blanks
  const char* files = "";  // as the line that begins with ':'
  bool list = false;       // several, with commas between
};

// The first that suits counts.
const Values kValues[] = {
    {"list", "WHAT", nullptr, "models topologies devices operators rules strategies"},
    {"show", "NAME", shown, "", ":files yaml json"},
    {"bench", "WHAT", nullptr, "simulator rules search"},
    {"completion", "SHELL", nullptr, "bash zsh fish"},
    {"import", "MODEL", nullptr, "", ":files onnx"},
    {"export", "--format", nullptr, "dot svg perfetto chakra"},
    {"simulate", "--trace-format", nullptr, "unity perfetto"},
    {"import", "--loss", nullptr, "cross_entropy mean_squared_error binary_cross_entropy none"},
    {"bench", "--models", models, "", ":files yaml", true},
    {"rules verify", "--model", models, "all"},
    {"rules show", "NAME", rules, ""},
    {"rules verify", "FILE", nullptr, "", ":files rules"},
    {"sweep", "EXPERIMENT", nullptr, "", ":files yaml"},
    {"sweep", "--output", nullptr, "", ":folders"},
    {"sweep", "--shard", nullptr, "slurm"},
    {"report", "FILE", nullptr, "", ":files json"},
    {"report", "--output", nullptr, "", ":files html"},
    {"report", "--against", nullptr, "", ":files json"},
    {"rules generate", "--output", nullptr, "", ":folders"},
    {"run", "--data", nullptr, "synthetic digits", ":files"},
    {"run", "--checkpoint", nullptr, "", ":folders"},
    {"run", "--early-stop-on", nullptr, "accuracy loss"},
    {"", "MODEL", models, "", ":files yaml"},
    {"", "PLAN", nullptr, "", ":files json"},
    {"", "PLAN|MODEL", models, "", ":files json yaml"},
    {"", "--topology", nullptr, "", ":files yaml"},  // and its names: see candidates_of
    {"", "--device", nullptr, "", ":files yaml"},
    {"", "--strategy", known_strategies, ""},
    {"", "--strategies", known_strategies, "", "", true},
    {"", "--operator", operators, ""},
    {"", "--parallelism", nullptr, "data model reduction head spatial pipeline", "", true},
    {"", "--pipeline-schedule", nullptr, "gpipe 1f1b interleaved zb-h1"},
    {"", "--schedule", nullptr,
     "constant step linear cosine polynomial"},  // of learning rates: `run` alone has it apart
    {"", "--remat", nullptr, "none blocks all"},
    {"", "--offload", nullptr, "none activations optimizer", "", true},
    {"", "--weight-versions", nullptr, "newest 2bw"},
    {"", "--zero-stage", nullptr, "1 2 3"},
    {"", "--fuse", nullptr, "none chains"},
    {"", "--optimizer", nullptr, "sgd adam adamw"},
    {"", "--backend", nullptr, "cpu cuda"},
    {"", "--comm", nullptr, "threads mpi nccl"},
    {"", "--precision", nullptr, "f32 f64 tf32 bf16"},
    {"", "--collective", nullptr, "all_reduce all_gather reduce_scatter broadcast reduce all_to_all send"},
    {"", "--collective-algorithm", nullptr, "ring tree hierarchical in_switch direct chain binomial auto"},
    {"", "--collective-protocol", nullptr, "LL LL128 Simple"},
    {"", "--profile", nullptr, "", ":files yaml"},
    {"", "--mappings", nullptr, "", ":files yaml"},
    {"", "--experiment", nullptr, "", ":files yaml"},
    {"", "--rules", nullptr, "", ":files rules"},
    {"", "--flows", nullptr, "", ":files json"},
    {"", "--weights", nullptr, "", ":files safetensors"},
    {"", "--log-folder", nullptr, "", ":folders"},
    {"", "--resume", nullptr, "", ":folders"},
    {"", "--output", nullptr, "", ":files"},
    {"", "--trace", nullptr, "", ":files json"},
    {"", "--perfetto", nullptr, "", ":files"},
    {"", "--dot", nullptr, "", ":files"},
    {"", "--svg", nullptr, "", ":files"},
    {"", "--save-gradients", nullptr, "", ":files"},
    {"", "FILE", nullptr, "", ":files"},
};

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

const CLI::Option* find_option(const CLI::App& app, const std::string& name) {
  for (const CLI::Option* option : app.get_options()) {
    std::vector<std::string> names = names_of(*option);
    if (std::find(names.begin(), names.end(), name) != names.end()) return option;
  }
  return nullptr;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({}))
    if (command->get_name() == name) return command;
  return nullptr;
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& app) {
  std::vector<const CLI::Option*> arguments;
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) arguments.push_back(option);
  return arguments;
}

struct Answer {
  std::string text;
  void add(const Candidate& c, const std::string& begin, const std::string& before = "") {
    if (!c.word.starts_with(begin)) return;
    text += before + c.word;
    if (!c.description.empty()) text += "\t" + c.description.substr(0, c.description.find('\n'));
    text += "\n";
  }
};

void add_values(Answer& answer, const std::string& path, const std::vector<std::string>& names, std::string begin) {
  const Values* found = nullptr;
  for (const Values& v : kValues)
    if (!found && (!*v.command || path == v.command) && std::find(names.begin(), names.end(), v.name) != names.end())
      found = &v;
  if (!found) return;
  Candidates list;
  if (found->names) list = found->names();
  for (const std::string& word : CLI::detail::split(found->words, ' '))
    if (!word.empty()) list.push_back({word, {}});
  for (const std::string& name : names) {
    if (name == "--topology")
      for (const Candidate& c : named(topology_names())) list.push_back(c);
    if (name == "--device")
      for (const Candidate& c : named(device_names())) list.push_back(c);
  }
  std::string before;
  if (std::size_t comma = begin.rfind(','); found->list && comma != std::string::npos) {
    before = begin.substr(0, comma + 1);
    begin = begin.substr(comma + 1);
  }
  for (const Candidate& c : list) answer.add(c, begin, before);
  if (*found->files) answer.text += std::string(found->files) + "\n";
}

std::string markdown(std::string text) {
  std::string safe;
  for (char c : text) {
    if (c == '|' || c == '*' || c == '<' || c == '[') safe += '\\';
    safe += c == '\n' ? ' ' : c;
  }
  return safe;
}

void add_rows(std::string& text, const CLI::App& app, bool positional) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional() != positional || option->get_lnames() == std::vector<std::string>{"help"}) continue;
    std::string names;
    if (positional) {
      names = "`" + option->get_name(true) + "`";
    } else {
      for (const std::string& name : names_of(*option)) names += (names.empty() ? "`" : ", `") + name + "`";
    }
    std::string value = positional || !takes_value(*option) ? "" : option->get_type_name();
    if (std::size_t colon = value.find(':'); colon != std::string::npos) value = value.substr(0, colon);
    std::string also = option->get_required() ? " (required)" : "";
    if (!option->get_default_str().empty() && takes_value(*option))
      also += " (default: " + option->get_default_str() + ")";
    text += fmt::format("| {} | {} | {}{} |\n", markdown(names), markdown(value), markdown(option->get_description()),
                        markdown(also));
  }
}

void add_reference(std::string& text, const CLI::App& app, const std::string& path) {
  text += fmt::format("\n## unity {}\n\n{}.\n", path, markdown(app.get_description()));
  std::string rows;
  add_rows(rows, app, true);
  add_rows(rows, app, false);
  if (!rows.empty()) text += "\n| argument, option | value | what |\n|---|---|---|\n" + rows;
  text += "\n";
  std::string examples = app.get_footer();
  for (std::string line : CLI::detail::split(examples, '\n'))
    if (line.starts_with("  ")) text += "  " + line + "\n";
  for (const CLI::App* command : app.get_subcommands({}))
    add_reference(text, *command, path + " " + command->get_name());
}

}  // namespace

std::string completions(const CLI::App& root, const std::vector<std::string>& given) {
  // Shells that take '=' for a blank give --strategy = unity.
  std::vector<std::string> words;
  for (const std::string& word : given.empty() ? std::vector<std::string>{""} : given) {
    std::size_t equals = word.find('=');
    if (word == "=") {
      if (&word == &given.back()) words.emplace_back();
    } else if (word.starts_with("--") && equals != std::string::npos) {
      words.push_back(word.substr(0, equals));
      words.push_back(word.substr(equals + 1));
    } else {
      words.push_back(word);
    }
  }
  const CLI::App* app = &root;
  const CLI::Option* awaits = nullptr;  // an option whose value comes next
  std::string path;
  std::size_t arguments = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (awaits) {
      awaits = nullptr;
    } else if (words[i].starts_with("-")) {
      const CLI::Option* option = find_option(*app, words[i]);
      if (option && takes_value(*option)) awaits = option;
    } else if (const CLI::App* command = arguments == 0 ? find_command(*app, words[i]) : nullptr) {
      app = command;
      path += (path.empty() ? "" : " ") + words[i];
    } else {
      ++arguments;
    }
  }
  Answer answer;
  const std::string& begin = words.back();
  if (awaits) {
    add_values(answer, path, names_of(*awaits), begin);
    return answer.text;
  }
  if (begin.starts_with("-")) {
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_positional() ? std::vector<std::string>{} : names_of(*option))
        answer.add({name, option->get_description()}, begin);
    return answer.text;
  }
  if (arguments == 0)
    for (const CLI::App* command : app->get_subcommands({}))
      answer.add({command->get_name(), command->get_description()}, begin);
  std::vector<const CLI::Option*> known = arguments_of(*app);
  if (!known.empty() && (arguments < known.size() || known.back()->get_items_expected_max() > 1)) {
    std::string name = known[std::min(arguments, known.size() - 1)]->get_name(true);
    add_values(answer, path, {name}, begin);
  }
  return answer.text;
}

std::string reference(const CLI::App& app) {
  std::string text =
      "# Every command and option\n\n"
      "Made from the definitions that `--help` prints, by `scripts/reference`; what they mean together says "
      "[commands.md](commands.md).\n"
      "Beside these, every command has `--help`; `unity --version` prints version, commit, build and optional parts.\n";
  for (const CLI::App* command : app.get_subcommands({})) add_reference(text, *command, command->get_name());
  return text;
}

namespace {

const char* kBash = R"bash(# bash completion of unity
_unity() {
  local IFS=$'\n' line word=${COMP_WORDS[COMP_CWORD]} folders
  [[ $word == '=' ]] && word=
  COMPREPLY=()
  while read -r line; do
    case $line in
      :folders) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$word") ;;
      :files*)
        compopt -o filenames 2>/dev/null
        local ending endings=${line#:files} file
        while read -r file; do
          if [[ -d $file || -z $endings ]]; then
            COMPREPLY+=("$file")
            continue
          fi
          local IFS=' '
          for ending in $endings; do [[ $file == *.$ending ]] && COMPREPLY+=("$file"); done
        done < <(compgen -f -- "$word") ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _unity unity
)bash";

const char* kZsh = R"zsh(#compdef unity
# zsh completion of unity
_unity() {
  local line name description
  local -a found endings
  for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :folders) _files -/ ;;
      ':files') _files ;;
      :files*)
        endings=(${=line#:files })
        _files -g "${(j: :)endings/#/*.}" ;;
      *)
        name=${line%%$'\t'*} description=
        [[ $line == *$'\t'* ]] && description=${line#*$'\t'}
        found+=("${name//:/\\:}${description:+:$description}") ;;
    esac
  done
  (( ${#found} )) && _describe unity found
}
if [[ $funcstack[1] == _unity ]]; then _unity "$@"; else compdef _unity unity; fi
)zsh";

const char* kFish = R"fish(# fish completion of unity
function __unity_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        switch $line
            case ':folders'
                __fish_complete_directories (commandline -ct)
            case ':files*'
                __fish_complete_path (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c unity -f -a '(__unity_complete)'
)fish";

}  // namespace

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = add_command(app, "completion", "Print the completion of a shell: commands, options, and names",
                                  "  source <(unity completion bash)\n"
                                  "  unity completion zsh > ~/.zfunc/_unity\n"
                                  "  unity completion fish > ~/.config/fish/completions/unity.fish");
  command->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  command->callback([shell] {
    if (*shell == "bash")
      fmt::print("{}", kBash);
    else if (*shell == "zsh")
      fmt::print("{}", kZsh);
    else if (*shell == "fish")
      fmt::print("{}", kFish);
    else
      throw_input_error("completion: found '{}', expected bash, zsh or fish", *shell);
  });
}

}  // namespace unity::cli
