// The Python face of .npy and safetensors files.
#include "orlop/interop/array_files.hpp"

#include "carrier.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

/// Signals are looked at after each block, whether or not anyone wants to know how far it is.
FileProgress to_progress(nb::handle progress) {
  return [callback = nb::borrow(progress)](Index done, Index total) {
    if (PyErr_CheckSignals() != 0) throw_python_error();
    if (!callback.is_none()) callback(done, total);
  };
}

LoadOptions to_options(nb::handle carrier, nb::handle progress) {
  LoadOptions options{.progress = to_progress(progress)};
  if (!carrier.is_none()) options.carrier = nb::cast<Ref<Carrier>>(carrier);
  return options;
}

/// UTF-8; UnicodeEncodeError for lone surrogates.
std::string to_utf8(nb::handle value, std::string_view what, std::string_view name) {
  if (PyUnicode_Check(value.ptr()) == 0)
    raise<TypeError>(what, name, " must be a str: got ", python_type_name(value));
  return std::string(utf8(value));
}

nb::str to_str(const std::string& words) { return nb::str(words.c_str(), words.size()); }

nb::dict load_named(nb::handle path, nb::handle names, nb::handle carrier, nb::handle progress) {
  constexpr std::string_view what = "load_safetensors";
  const std::filesystem::path source = to_path(path, what);
  const LoadOptions options = to_options(carrier, progress);
  NamedTensors tensors;
  if (names.is_none()) {
    tensors = load_safetensors(source, options);
  } else {
    if (PyUnicode_Check(names.ptr()) != 0)
      raise<TypeError>(what, "names must be an iterable of names: got one str; put it into a tuple");
    std::vector<std::string> chosen;
    for_each_item(names, what, "names",
                  [&](const nb::object& name) { chosen.push_back(to_utf8(name, what, "a name")); });
    tensors = load_safetensors(source, chosen, options);
  }
  nb::dict result;
  for (const auto& [name, tensor] : tensors) result[to_str(name)] = tensor;
  return result;
}

void save_named(nb::handle path, const nb::dict& tensors, const nb::dict& metadata, nb::handle progress) {
  constexpr std::string_view what = "save_safetensors";
  const std::filesystem::path target = to_path(path, what);
  NamedTensors named;
  for (const auto& [name, tensor] : tensors) {
    std::string words = to_utf8(name, what, "a name");
    const std::string place = text("the value of '", words, "'");
    named.emplace_back(std::move(words), to_tensor(tensor, what, place));
  }
  SaveSafetensorsOptions options{.progress = to_progress(progress)};
  for (const auto& [key, value] : metadata)
    options.metadata.emplace_back(to_utf8(key, what, "a metadata key"),
                                  to_utf8(value, what, "a metadata value"));
  save_safetensors(target, named, options);
}

}  // namespace

void bind_array_files(nb::module_& module) {
  nb::module_ files = module.def_submodule("_array_files");
  files.def(
      "load_npy",
      [](nb::handle path, nb::handle carrier, nb::handle progress) {
        return load_npy(to_path(path, "load_npy"), to_options(carrier, progress));
      },
      "path"_a.none(), "carrier"_a.none(), "progress"_a.none());
  files.def(
      "save_npy",
      [](nb::handle path, nb::handle tensor, nb::handle progress) {
        save_npy(to_path(path, "save_npy"), to_tensor(tensor, "save_npy", "tensor"), to_progress(progress));
      },
      "path"_a.none(), "tensor"_a.none(), "progress"_a.none());
  files.def("load_safetensors", &load_named, "path"_a.none(), "names"_a.none(), "carrier"_a.none(),
            "progress"_a.none());
  files.def("save_safetensors", &save_named, "path"_a.none(), "tensors"_a, "metadata"_a, "progress"_a.none());
  files.def(
      "safetensors_metadata",
      [](nb::handle path) {
        nb::dict result;
        for (const auto& [key, value] : safetensors_metadata(to_path(path, "safetensors_metadata")))
          result[to_str(key)] = to_str(value);
        return result;
      },
      "path"_a.none());
}

}  // namespace orlop::bindings
