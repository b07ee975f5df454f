// What a process is given of a machine's memory.
#include <limits>

#include <catch2/catch.hpp>

#include "core/base/this_machine.h"
#include "tests/support/command.h"

using namespace unity;

TEST_CASE("the memory of this machine is the least of what control groups leave of it") {
  command::Folder f;
  for (const char* group : {"batch/job", "memory/job"}) std::filesystem::create_directories(f.file(group));
  const Bytes none{std::numeric_limits<std::int64_t>::max()};
  auto limit = [&](const std::string& membership) {
    return memory_limit_of_groups(f.write("membership", membership), f.path).count;
  };
  CHECK(memory_limit_of_groups(f.file("nowhere"), f.path) == none);
  CHECK(limit("") == none.count);
  // Version 2: in the own group, or one around it.
  f.write("memory.max", "max\n");
  f.write("batch/memory.max", "4000\n");
  f.write("batch/job/memory.max", "max\n");
  CHECK(limit("0::/\n") == none.count);
  CHECK(limit("0::/batch\n") == 4000);
  CHECK(limit("0::/batch/job\n") == 4000);
  CHECK(limit("0::/batch/not-there/deeper\n") == 4000);
  // Version 1, whose root may be the container's own.
  f.write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  f.write("memory/job/memory.limit_in_bytes", "3000\n");
  CHECK(limit("9:cpuset:/job\n4:cpu,memory:/job\n0::/batch\n") == 3000);
  CHECK(limit("4:memory:/elsewhere\n") == 9223372036854771712);
  CHECK(limit("4:memoryless:/job\nnonsense\n") == none.count);
  CHECK(memory_of_this_machine().count > 0);
}
