// The error types: one class per Python builtin, translated one to one by the bindings.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "orlop/base/export.hpp"
#include "orlop/base/message.hpp"

namespace orlop::inline v0 {

/// Base of everything Orlop throws on purpose.
class ORLOP_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what);
  Error(const Error&) = default;
  ~Error() override;
};

class ORLOP_API TypeError : public Error {
 public:
  using Error::Error;
  ~TypeError() override;
};
class ORLOP_API ValueError : public Error {
 public:
  using Error::Error;
  ~ValueError() override;
};
class ORLOP_API RuntimeError : public Error {
 public:
  using Error::Error;
  ~RuntimeError() override;
};
class ORLOP_API NotImplementedError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
  ~NotImplementedError() override;
};
class ORLOP_API LookupError : public Error {
 public:
  using Error::Error;
  ~LookupError() override;
};
class ORLOP_API IndexError : public LookupError {
 public:
  using LookupError::LookupError;
  ~IndexError() override;
};
class ORLOP_API KeyError : public LookupError {
 public:
  using LookupError::LookupError;
  ~KeyError() override;
};
class ORLOP_API OverflowError : public Error {
 public:
  using Error::Error;
  ~OverflowError() override;
};
class ORLOP_API MemoryError : public Error {
 public:
  using Error::Error;
  ~MemoryError() override;
};
class ORLOP_API BufferError : public Error {
 public:
  using Error::Error;
  ~BufferError() override;
};
class ORLOP_API AttributeError : public Error {
 public:
  using Error::Error;
  ~AttributeError() override;
};

/// A failed system call: `code` is errno, `path` the file or node it was about (may be empty).
class ORLOP_API OSError : public Error {
 public:
  OSError(int code, std::string path, const std::string& what);
  ~OSError() override;
  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  int code_;
  std::string path_;
};

/// Throws `E` with a message in the house pattern (see message.hpp).
template <class E, class... Parts>
[[noreturn]] void raise(std::string_view what, const Parts&... parts) {
  throw E(message(what, parts...));
}

}  // namespace orlop::inline v0
