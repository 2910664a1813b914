// The log in Python: the channels orlop.io and orlop.residency of the standard logging module, at level
// DEBUG.
#include "orlop/base/log.hpp"

#include "support.hpp"

namespace orlop::bindings {

namespace {

constexpr int level = 10;  // logging.DEBUG

/// The logger, or nothing while the program has not imported logging: then nobody can be watching.
nb::object logger_of(LogChannel channel) {
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const logging = PyDict_GetItemString(modules, "logging");
  if (logging == nullptr) return {};
  return nb::handle(logging).attr("getLogger")(channel == LogChannel::io ? "orlop.io" : "orlop.residency");
}

/// With the interpreter, an error that is on its way kept, and errors of listeners reported, not raised.
template <class Action>
void aside(const Action& action) noexcept {
  const InterpreterLock lock;
  const nb::error_scope kept;
  try {
    action();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("orlop logging");
  } catch (const std::bad_alloc&) {  // a line lost
  }
}

bool is_watching(LogChannel channel) noexcept {
  bool result = false;
  aside([&] {
    const nb::object logger = logger_of(channel);
    result = logger.is_valid() && nb::cast<bool>(logger.attr("isEnabledFor")(level));
  });
  return result;
}

void write(LogChannel channel, const std::string& line) noexcept {
  aside([&] {
    if (const nb::object logger = logger_of(channel); logger.is_valid())
      logger.attr("log")(level, "%s", line);
  });
}

constexpr orlop::detail::LogListener listener{is_watching, write};

}  // namespace

void install_logging() {
  orlop::detail::install_log_listener(&listener);
  at_exit([] { orlop::detail::install_log_listener(nullptr); });
}

}  // namespace orlop::bindings
