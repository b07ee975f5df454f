// The documentation as data: Markdown files, their links, what stands in `code` and in blocks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace docs {

// Between ``` and ```, or indented by four.
struct Block {
  std::string language;  // "console", "yaml", ..; empty: indented
  std::string word;      // what follows the language: "gpu", "fails", the name of a file
  std::vector<std::string> lines;
  int line = 0;  // of its first line, from 1
};

struct Link {
  std::string to;
  int line = 0;
};

struct Document {
  std::string path;  // relative to the repository
  std::vector<std::string> anchors;
  std::vector<Link> links;  // and pictures
  std::vector<Link> code;   // `like this`, outside blocks
  std::vector<Block> blocks;
};

Document read_document(const std::string& path);

// README.md of every folder and all of docs/, sorted.
std::vector<Document> all_documents();

// The repository's folder.
std::filesystem::path root();

}  // namespace docs
