// NumPy's .npy: a magic, a version, a Python dict as text, and the elements.
#include <array>
#include <bit>
#include <cstring>

#include "interop/array_stream.hpp"
#include "interop/header_reader.hpp"
#include "orlop/base/checked.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::string_view loading = "load_npy";
constexpr std::string_view saving = "save_npy";
constexpr std::string_view magic{"\x93NUMPY", 6};
constexpr Index preamble_bytes = 8;                  // magic and version
constexpr Index most_header_bytes = Index{1} << 20;  // NumPy itself trusts 10,000
constexpr std::size_t alignment = 64;
constexpr bool is_little = std::endian::native == std::endian::little;

struct ElementType {
  std::string_view code;  // without byte order
  const DType* dtype;
};

std::span<const ElementType> element_types() {
  static const std::array<ElementType, 3> types{
      {{"f4", &dtypes::Float32}, {"i4", &dtypes::Int32}, {"b1", &dtypes::Bool}}};
  return types;
}

[[noreturn]] void refuse_type(std::string_view found, const std::string& path) {
  raise<TypeError>(loading, "'", path, "' holds elements of type ", found,
                   "; only float32, int32 and bool ('f4', 'i4', 'b1') load, convert it with NumPy");
}

void set_type(FileArray& array, std::string_view descr, const std::string& path) {
  std::string_view code = descr;
  char order = '=';
  if (!code.empty() && std::string_view("<>=|").find(code[0]) != std::string_view::npos) {
    order = code[0];
    code.remove_prefix(1);
  }
  for (const ElementType& type : element_types()) {
    if (type.code != code) continue;
    array.dtype = type.dtype;
    array.is_swapped = order == (is_little ? '>' : '<');
    return;
  }
  refuse_type(text("'", descr, "'"), path);
}

/// `(3, 4)`, `(3,)` or `()`.
std::vector<Index> read_shape(HeaderReader& reader) {
  std::vector<Index> extents;
  reader.expect('(');
  while (!reader.accept(')')) {
    extents.push_back(reader.integer());
    if (reader.accept(',')) continue;
    if (reader.peek() != ')' || extents.size() < 2) reader.refuse("a tuple is missing its comma");
  }
  return extents;
}

/// The dict: exactly its three keys, in any order.
FileArray read_dict(HeaderReader reader, const std::string& path) {
  FileArray array;
  bool has_order = false;
  bool has_shape = false;
  reader.expect('{');
  while (!reader.accept('}')) {
    const std::string key = reader.python_string();
    reader.expect(':');
    if (key == "descr" && array.dtype == nullptr) {
      if (reader.peek() == '[') refuse_type("several fields", path);
      set_type(array, reader.python_string(), path);
    } else if (key == "fortran_order" && !has_order) {
      has_order = true;
      array.is_row_major = reader.accept("False");
      if (!array.is_row_major && !reader.accept("True")) reader.refuse("True or False is missing");
    } else if (key == "shape" && !has_shape) {
      has_shape = true;
      array.extents = read_shape(reader);
    } else {
      reader.refuse(text("the key '", key, "' is unknown or there twice"));
    }
    if (!reader.accept(',') && reader.peek() != '}') reader.refuse("',' or '}' is missing");
  }
  reader.expect_end();
  if (array.dtype == nullptr || !has_order || !has_shape)
    reader.refuse("it needs the keys descr, fortran_order and shape");
  return array;
}

std::string read_text(const detail::InputFile& file, Index offset, Index bytes) {
  if (bytes > file.bytes() - offset)
    raise<ValueError>(loading, "'", file.path(), "' ends inside its header: ", file.bytes(), " bytes, ",
                      offset + bytes, " needed");
  std::string words(static_cast<std::size_t>(bytes), '\0');
  file.read(std::as_writable_bytes(std::span(words)), offset);
  return words;
}

Index little_endian(std::string_view bytes) {
  Index value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value * 256 + static_cast<unsigned char>(bytes[i]);
  return value;
}

FileArray read_header(const detail::InputFile& file) {
  const std::string preamble = read_text(file, 0, preamble_bytes);
  if (!preamble.starts_with(magic))
    raise<ValueError>(loading, "'", file.path(), "' is no .npy file: it does not start with \\x93NUMPY");
  const int version = static_cast<unsigned char>(preamble[6]);
  if (version < 1 || version > 3 || preamble[7] != 0)
    raise<ValueError>(loading, "'", file.path(), "' has the version ", version, '.',
                      static_cast<int>(preamble[7]), "; 1.0, 2.0 and 3.0 load");
  const Index length_bytes = version == 1 ? 2 : 4;
  const Index start = preamble_bytes + length_bytes;
  const Index bytes = little_endian(read_text(file, preamble_bytes, length_bytes));
  if (bytes > most_header_bytes)
    raise<ValueError>(loading, "'", file.path(), "' has a header of ", bytes, " bytes; at most ",
                      most_header_bytes);
  const std::string words = read_text(file, start, bytes);
  FileArray array = read_dict(HeaderReader(loading, file.path(), words, start), file.path());
  array.offset = start + bytes;
  return array;
}

std::string header_of(const Tensor& tensor, bool is_row_major) {
  std::string shape;
  for (const Index extent : tensor.layout().extents()) shape += text(shape.empty() ? "" : ", ", extent);
  if (tensor.layout().extents().size() == 1) shape += ',';
  std::string_view code;
  for (const ElementType& type : element_types())
    if (type.dtype->storage_type() == tensor.dtype().storage_type()) code = type.code;
  const char order = code == "b1" ? '|' : is_little ? '<' : '>';
  std::string dict =
      text("{'descr': '", order, code, "', 'fortran_order': ", !is_row_major, ", 'shape': (", shape, "), }");
  const std::size_t start = static_cast<std::size_t>(preamble_bytes) + 2;
  dict.append(alignment - (start + dict.size() + 1) % alignment, ' ');
  dict += '\n';
  std::string header = text(magic, '\1', '\0');
  header += static_cast<char>(dict.size() % 256);
  header += static_cast<char>(dict.size() / 256);
  return header + dict;
}

/// The order in which the file follows the memory: that of the nearer neighbours.
bool prefers_row_major(const Layout& layout) {
  const auto extents = layout.extents();
  const auto strides = layout.strides();
  std::size_t first = 0;
  std::size_t last = extents.size();
  while (first < last && extents[first] == 1) ++first;
  while (last > first && extents[last - 1] == 1) --last;
  return last <= first + 1 || strides[last - 1] <= strides[first];
}

}  // namespace

Tensor load_npy(const std::filesystem::path& path, const LoadOptions& options) {
  const detail::InputFile file(loading, path.native());
  const FileArray array = read_header(file);
  const Index bytes = element_count(loading, "the array", array) * array.dtype->slot_bytes();
  if (bytes > file.bytes() - array.offset)
    raise<ValueError>(loading, "'", path.native(), "' is truncated: its array takes ", bytes,
                      " bytes from byte ", array.offset, ", the file has ", file.bytes());
  ProgressMeter meter(options.progress, bytes);
  return read_array(file, array, options.carrier, meter);
}

void save_npy(const std::filesystem::path& path, const Tensor& tensor, const FileProgress& progress) {
  const Index bytes = check_saved(saving, "the Tensor", tensor);
  const bool is_row_major = prefers_row_major(tensor.layout());
  const std::string header = header_of(tensor, is_row_major);
  const auto start = static_cast<Index>(header.size());
  detail::OutputFile file(saving, path.native(), checked_add(start, bytes, saving));
  file.write(std::as_bytes(std::span(header)), 0);
  ProgressMeter meter(progress, bytes);
  write_array(file, start, tensor, is_row_major, meter);
  file.commit();
}

}  // namespace orlop::inline v0
