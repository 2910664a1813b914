// The Python face of the FileBacked carrier.
#include "orlop/carriers/file_backed/file_backed.hpp"

#include "call_arguments.hpp"
#include "carrier.hpp"
#include "carrier_class.hpp"

namespace orlop::bindings {

namespace {

constexpr std::string_view kWhat = "FileBacked";

std::optional<std::string> to_filename(nb::handle value) {
  if (!value.is_valid() || value.is_none()) return std::nullopt;
  if (!PyUnicode_Check(value.ptr()))
    raise<TypeError>(kWhat, "filename must be a str or None: got ", python_type_name(value));
  return to_file_name(value);
}

Ref<FileBacked> make_file_backed(const nb::args& args, const nb::kwargs& kwargs) {
  const CallArguments call("FileBacked", args, kwargs, {"filename"}, 0, {"mutable", "dtype"});
  const nb::object dtype = call.require_keyword("dtype");
  const FileBackedOptions options{.filename = to_filename(call.get("filename")),
                                  .is_mutable = call.flag("mutable", true)};
  return FileBacked::make(to_dtype(dtype, kWhat), options);
}

nb::object path_of(FileBacked& carrier) {
  const std::string path = carrier.path().string();
  const nb::object decoded =
      nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
  if (!decoded.is_valid()) throw_python_error();
  return nb::module_::import_("pathlib").attr("Path")(decoded);
}

}  // namespace

void bind_file_backed(nb::module_& module) {
  nb::class_<FileBacked, Carrier> bound(module, "FileBacked", counted<FileBacked>(),
                                        nb::type_slots(collector_slots), nb::is_final(),
                                        R"(FileBacked(filename=None, *, mutable=True, dtype)

A temporary raw numeric file of Float32 or Int32 slots, initially empty. `filename` is a bare name in the
process's hidden session directory (ORLOP_TMPDIR, else TMPDIR, TEMP, TMP, else /var/tmp); None: a unique
one. TypeError without dtype; ValueError for another dtype or a path; FileExistsError where the name is
taken. The file goes with release(), with the object, and at exit; it is never flushed to the disk.

>>> with orlop.FileBacked(dtype=orlop.DType.Float32) as empty:
...     stored = empty.new_like([1.0, 2.0])
>>> type(stored).__name__, stored[1]
('FileBacked', 2.0))");
  bound.def(nb::new_(&make_file_backed))
      .def_prop_ro(
          "path", &path_of,
          "The file, a pathlib.Path. A factory's result without slots makes its file when first asked.");
  reject_subclasses(bound, "FileBacked");
  name_carrier_class<FileBacked>(bound);
}

}  // namespace orlop::bindings
