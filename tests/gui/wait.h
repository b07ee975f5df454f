// Until a session has nothing more to do.
#pragma once

#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

#include "gui/session/session.h"

namespace unity::gui {

// Fails after a minute.
inline void wait_for(Session& session) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  do {
    session.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    REQUIRE(std::chrono::steady_clock::now() < end);
  } while (!session.settled());
}

}  // namespace unity::gui
