#include "core/base/error.h"

namespace unity::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: internal error: {} ({})", file, line, message, condition));
}

}  // namespace unity::detail
