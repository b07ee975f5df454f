#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/replacing_file.h"
#include "core/base/text.h"

using namespace unity;

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "unity-replacing-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(path)) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
};

}  // namespace

TEST_CASE("until it is committed, the old file stays; after that, the new one is there alone") {
  Folder folder;
  fs::path file = folder.path / "f";
  write_file_atomically(file, "old");
  {
    ReplacingFile given_up(file);
    given_up.write("new");
    CHECK(read_file(file) == "old");
    CHECK(folder.names() == std::vector<std::string>{"f", "f.unfinished.tmp"});
  }
  CHECK(folder.names() == std::vector<std::string>{"f"});
  ReplacingFile kept(file);
  kept.write("ne"), kept.write("w");
  kept.commit();
  CHECK(read_file(file) == "new");
  CHECK(folder.names() == std::vector<std::string>{"f"});
}

TEST_CASE("what a killed process left is taken over, so leftovers do not accumulate") {
  Folder folder;
  fs::path file = folder.path / "f";
  std::ofstream(file.string() + ".unfinished.tmp") << "longer than what is written now";
  write_file_atomically(file, "new");
  CHECK(read_file(file) == "new");
  CHECK(folder.names() == std::vector<std::string>{"f"});
}

TEST_CASE("two that write the same file at once do not meet in one; the last to end counts") {
  Folder folder;
  fs::path file = folder.path / "f";
  ReplacingFile first(file), second(file);
  first.write("first"), second.write("the second");
  CHECK(folder.names().size() == 2);
  second.commit();
  CHECK(read_file(file) == "the second");
  first.commit();
  CHECK(read_file(file) == "first");
  CHECK(folder.names() == std::vector<std::string>{"f"});
}

TEST_CASE("a name that leads elsewhere is not written through") {
  Folder folder;
  fs::path file = folder.path / "f", victim = folder.path / "victim";
  std::ofstream(victim) << "precious";
  fs::create_symlink(victim, file.string() + ".unfinished.tmp");
  write_file_atomically(file, "a");
  fs::remove(file.string() + ".unfinished.tmp");
  fs::create_hard_link(victim, file.string() + ".unfinished.tmp");
  write_file_atomically(file, "b");
  CHECK(read_file(victim) == "precious");
  CHECK(read_file(file) == "b");
}

TEST_CASE("a symbolic link to a file that is not there yet, through another one, makes that file") {
  Folder own;
  const fs::path folder = own.path;
  fs::create_directories(folder / "elsewhere");
  fs::create_symlink("elsewhere/next", folder / "link");
  fs::create_symlink(folder / "elsewhere" / "file", folder / "elsewhere" / "next");
  write_file_atomically(folder / "link", "text");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(fs::is_symlink(folder / "elsewhere" / "next"));
  CHECK(read_file(folder / "elsewhere" / "file") == "text");
  fs::create_symlink("round", folder / "round");  // around, and to no file
  CHECK_THROWS_AS(write_file_atomically(folder / "round", "text"), InputError);
  CHECK(fs::is_symlink(folder / "round"));
}

TEST_CASE("a symbolic link is followed, and stays one") {
  Folder folder;
  fs::path file = folder.path / "f", link = folder.path / "link";
  write_file_atomically(file, "old");
  fs::create_symlink("f", link);
  write_file_atomically(link, "new");
  CHECK(fs::is_symlink(link));
  CHECK(read_file(file) == "new");
}

TEST_CASE("what is no regular file is written to as it is, and never replaced") {
  Folder folder;
  fs::path pipe = folder.path / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_file_atomically(pipe, "through");
  char text[8] = {};
  CHECK(read(reader, text, sizeof text) == 7);
  CHECK(std::string(text) == "through");
  CHECK(fs::is_fifo(pipe));
  close(reader);
  CHECK_THROWS_WITH(write_file_atomically("/dev/full", "x"), "/dev/full: cannot be written: No space left on device");
  CHECK_FALSE(fs::is_regular_file("/dev/full"));
}

TEST_CASE("where it cannot be written, the message names the file as it was given, and the reason") {
  Folder folder;
  CHECK_THROWS_WITH(ReplacingFile("/nowhere/f"), "/nowhere/f: cannot be written: No such file or directory");
  CHECK_THROWS_WITH(ReplacingFile(folder.path), folder.path.string() + ": cannot be written: Is a directory");
}
