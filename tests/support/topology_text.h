// Topologies written in a test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "core/machine/topology.h"

namespace unity::test {

// A file with this content, removed afterwards.
class TextFile {
 public:
  explicit TextFile(const std::string& content, const std::string& extension = ".yaml") {
    static int count = 0;
    std::string name = fmt::format("unity_machine_{}_{}{}", getpid(), count++, extension);
    path_ = (std::filesystem::temp_directory_path() / name).string();
    std::ofstream(path_) << content;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The content without its first lines, `format` and `version`: line 3 of the file is line 1 here.
inline Topology topology_of(const std::string& content, const TopologyOptions& options = {}) {
  TextFile file("format: unity-topology\nversion: 1\n" + content);
  return load_topology(file.path(), options);
}

// The message, from the line number on; empty when there is none.
inline std::string topology_error(const std::string& content, const TopologyOptions& options = {}) {
  try {
    topology_of(content, options);
  } catch (const InputError& e) {
    std::string message = e.what();
    return message.substr(message.find(".yaml:") + 5);
  }
  return {};
}

// The names of the vertices after the first on the way from one device to the other.
inline std::vector<std::string> way(const Topology& t, int from, int to, std::uint64_t label = 0) {
  std::vector<std::string> names;
  for (LinkId l : t.route(DeviceId(from), DeviceId(to), label))
    names.push_back(t.vertices[t.links[l.index()].to.index()].name);
  return names;
}

}  // namespace unity::test
