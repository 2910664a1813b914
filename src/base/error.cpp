// Out-of-line members of the error types, so that each type has one home for its type information.
#include "orlop/base/error.hpp"

#include <charconv>

namespace orlop::inline v0 {

Error::Error(const std::string& what) : std::runtime_error(what) {}
Error::~Error() = default;
TypeError::~TypeError() = default;
ValueError::~ValueError() = default;
RuntimeError::~RuntimeError() = default;
NotImplementedError::~NotImplementedError() = default;
LookupError::~LookupError() = default;
IndexError::~IndexError() = default;
KeyError::~KeyError() = default;
OverflowError::~OverflowError() = default;
MemoryError::~MemoryError() = default;
BufferError::~BufferError() = default;
AttributeError::~AttributeError() = default;

OSError::OSError(int code, std::string path, const std::string& what)
    : Error(what), code_(code), path_(std::move(path)) {}
OSError::~OSError() = default;

namespace detail {

namespace {
template <class T>
void append_shortest(std::string& out, T part) {
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, part).ptr;
  const std::string_view shortest(digits, static_cast<std::size_t>(end - digits));
  out += shortest;
  // As Python writes them: a float always looks like one.
  if (shortest.find_first_of(".en") == std::string_view::npos) out += ".0";
}
}  // namespace

void append_text(std::string& out, double part) { append_shortest(out, part); }
void append_text(std::string& out, float part) { append_shortest(out, part); }

}  // namespace detail

}  // namespace orlop::inline v0
