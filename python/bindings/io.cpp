// Scripted system calls for Python tests of storage (S514): what orlop._testing re-exports.
#include "orlop/io/io_script.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <cerrno>
#include <csignal>
#include <limits>
#include <memory>
#include <string>

#include "block_device.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/carriers/block_device/block_device.hpp"
#include "orlop/io/temporary_file.hpp"
#include "support.hpp"

namespace orlop::bindings {

namespace {

using orlop::detail::Gate;
using orlop::detail::IoScript;
using orlop::detail::IoScriptOptions;
using orlop::detail::IoStep;

constexpr std::string_view kWhat = "IoScript";

int to_errno(nb::handle value, std::string_view name) {
  const Index code = to_index(value, kWhat, name);
  if (code < 0 || code > std::numeric_limits<std::uint16_t>::max())
    raise<ValueError>(kWhat, name, " must be an errno: got ", code, "; use a constant of the errno module");
  return static_cast<int>(code);
}

int to_signal(nb::handle value) {
  const Index number = to_index(value, kWhat, "signal");
  if (number < 1 || number >= NSIG)
    raise<ValueError>(kWhat, "signal must be 1 to ", NSIG - 1, ": got ", number,
                      "; use a constant of the signal module");
  return static_cast<int>(number);
}

struct StepForm {
  std::string_view name;
  IoStep::Kind kind;
  std::size_t length;
};

constexpr StepForm kSteps[] = {{"pass", IoStep::Kind::kPass, 1},   {"intr", IoStep::Kind::kInterrupt, 1},
                               {"short", IoStep::Kind::kShort, 2}, {"zero", IoStep::Kind::kZero, 1},
                               {"fail", IoStep::Kind::kFail, 2},   {"hold", IoStep::Kind::kHold, 2}};

IoStep to_step(nb::handle item) {
  if (!nb::isinstance<nb::tuple>(item))
    raise<TypeError>(kWhat, "a step must be a tuple: got ", python_type_name(item));
  const auto parts = nb::borrow<nb::tuple>(item);
  const auto* name = parts.size() > 0 ? PyUnicode_AsUTF8(nb::handle(parts[0]).ptr()) : nullptr;
  PyErr_Clear();
  for (const StepForm& form : kSteps) {
    if (name == nullptr || form.name != name || form.length != parts.size()) continue;
    IoStep step{.kind = form.kind};
    if (form.kind == IoStep::Kind::kFail) step.code = to_errno(parts[1], "the errno of a step");
    if (form.kind == IoStep::Kind::kHold) {
      if (!nb::isinstance<Gate>(parts[1]))
        raise<TypeError>(kWhat, "a hold step needs a Gate: got ", python_type_name(parts[1]));
      step.gate = nb::cast<std::shared_ptr<Gate>>(nb::handle(parts[1]));
    }
    if (form.kind == IoStep::Kind::kShort) {
      step.count = to_index(parts[1], kWhat, "the byte count of a step");
      if (step.count < 1) raise<ValueError>(kWhat, "a short step moves at least 1 byte: got ", step.count);
    }
    return step;
  }
  raise<ValueError>(kWhat,
                    "a step must be ('pass',), ('intr',), ('short', n), ('zero',), ('fail', errno) or "
                    "('hold', gate): got ",
                    to_text(nb::repr(item)));
}

std::vector<IoStep> to_steps(nb::handle steps) {
  std::vector<IoStep> result;
  for (const nb::handle item : steps) result.push_back(to_step(item));
  return result;
}

void check_reserve(const std::vector<IoStep>& steps) {
  for (const IoStep& step : steps)
    if (step.kind == IoStep::Kind::kShort || step.kind == IoStep::Kind::kZero)
      raise<ValueError>(kWhat,
                        "a reservation is all or nothing; use ('pass',), ('intr',), ('fail', errno) or "
                        "('hold', gate)");
}

std::shared_ptr<IoScript> make_script(nb::handle read, nb::handle write, nb::handle reserve,
                                      nb::handle open_errno, nb::handle close_errno, nb::handle fail_at,
                                      nb::handle fail_errno, nb::handle signal_at, nb::handle signal) {
  IoScriptOptions options;
  options.read = to_steps(read);
  options.write = to_steps(write);
  options.reserve = to_steps(reserve);
  check_reserve(options.reserve);
  options.open_errno = to_errno(open_errno, "open_errno");
  if (options.open_errno == EINTR)
    raise<ValueError>(kWhat, "open_errno must not be EINTR: it would be repeated for ever");
  options.close_errno = to_errno(close_errno, "close_errno");
  options.fail_at = to_index(fail_at, kWhat, "fail_at");
  options.fail_errno = to_errno(fail_errno, "fail_errno");
  options.signal_at = to_index(signal_at, kWhat, "signal_at");
  options.signal = to_signal(signal);
  return std::make_shared<IoScript>(std::move(options));
}

/// The context manager that puts a script in force.
class Replacement {
 public:
  explicit Replacement(std::shared_ptr<IoScript> script) : script_(std::move(script)) {}
  std::shared_ptr<IoScript> enter() {
    if (scope_)
      raise<RuntimeError>("file_backed_io", "the scope is entered already; make one per with statement");
    scope_ = std::make_unique<orlop::detail::ScopedIoCalls>(script_);
    return script_;
  }
  void exit() { scope_.reset(); }

 private:
  std::shared_ptr<IoScript> script_;
  std::unique_ptr<orlop::detail::ScopedIoCalls> scope_;
};

template <Index IoScript::Counts::* count>
Index counter(const IoScript& script) {
  return script.counts().*count;
}

bool wait_entered(Gate& gate, double timeout) {
  if (!(timeout >= 0.0 && timeout <= 1e9))
    raise<ValueError>("Gate", "timeout must be 0 to 1e9 seconds: got ", timeout);
  const BlockingScope blocking;
  return gate.wait_entered(timeout);
}

std::uint64_t to_geometry(nb::handle value, std::string_view name) {
  constexpr std::string_view what = "open_block_device";
  const Index bytes = to_index(value, what, name);
  if (bytes < 0) raise<ValueError>(what, name, " must not be negative: got ", bytes);
  return static_cast<std::uint64_t>(bytes);
}

Ref<BlockDevice> open_block_device(nb::handle path, nb::handle capacity, nb::handle logical,
                                   nb::handle physical, std::shared_ptr<IoScript> script) {
  if (script == nullptr) script = std::make_shared<IoScript>(IoScriptOptions{});
  script->present_as_device({to_geometry(capacity, "capacity"), to_geometry(logical, "logical"),
                             to_geometry(physical, "physical")});
  return BlockDevice::open(to_device_path(path), script);
}

}  // namespace

void bind_block_device_testing(nb::module_& module) {
  nb::module_ testing = nb::borrow<nb::module_>(module.attr("testing"));
  testing.def(
      "open_block_device", &open_block_device, "path"_a.none(), nb::kw_only(), "capacity"_a,
      "logical"_a = 512, "physical"_a = 4096, "script"_a.none() = nb::none(),
      "A BlockDevice on the regular file `path`, with this geometry in bytes; its system calls follow\n"
      "`script`. The file must exist and hold the capacity.");
}

void bind_io(nb::module_& module) {
  nb::module_ testing = module.def_submodule("testing", "Scripted system calls for tests of storage.");
  nb::class_<Gate>(testing, "Gate", "A place where a scripted call stops until someone lets it go on.")
      .def(nb::init<>())
      .def("wait_entered", wait_entered, "timeout"_a,
           "Waits up to `timeout` seconds for a call to arrive; whether one has.")
      .def("open", &Gate::open, "Lets every call through, now and later.");

  using Counts = IoScript::Counts;
  nb::class_<IoScript>(
      testing, "IoScript",
      "System calls that follow a script: one step per pread, pwrite and reserve, in order; an\n"
      "exhausted list passes through. Steps: ('pass',), ('intr',), ('short', n), ('zero',),\n"
      "('fail', errno), ('hold', gate). With fail_at=n the n-th call of any kind fails; with signal_at=n\n"
      "the process gets `signal` before it.")
      .def(nb::new_(&make_script), "read"_a = nb::tuple(), "write"_a = nb::tuple(), "reserve"_a = nb::tuple(),
           "open_errno"_a = 0, "close_errno"_a = 0, nb::kw_only(), "fail_at"_a = 0, "fail_errno"_a = EIO,
           "signal_at"_a = 0, "signal"_a = SIGKILL)
      .def_prop_ro("calls", counter<&Counts::calls>, "Calls of every kind so far.")
      .def_prop_ro("opens", counter<&Counts::opens>)
      .def_prop_ro("reads", counter<&Counts::reads>)
      .def_prop_ro("writes", counter<&Counts::writes>)
      .def_prop_ro("closes", counter<&Counts::closes>)
      .def_prop_ro("reads_left", counter<&Counts::reads_left>, "Read steps not used yet.")
      .def_prop_ro("writes_left", counter<&Counts::writes_left>, "Write steps not used yet.");

  nb::class_<Replacement>(testing, "file_backed_io",
                          "Context manager: files use `script` for their system calls, in every thread.")
      .def(nb::init<std::shared_ptr<IoScript>>(), "script"_a)
      .def("__enter__", &Replacement::enter)
      .def("__exit__", [](Replacement& self, const nb::args&) { self.exit(); });
  testing.def("open_temporary_files", &orlop::detail::open_temporary_files,
              "How many descriptors of temporary files this process holds open.");
}

}  // namespace orlop::bindings
