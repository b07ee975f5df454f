// The error of a plan that needs more memory than there is.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.h"

namespace unity {

// A device has less memory than what is to run needs there.
class DoesNotFit : public InputError {
 public:
  // `limit`: bytes that a plan may need on a device to fit after all; 0 where none is known.
  DoesNotFit(const std::string& what, std::int64_t limit) : InputError(what), limit_(limit) {}
  std::int64_t limit() const { return limit_; }

 private:
  std::int64_t limit_;
};

}  // namespace unity
