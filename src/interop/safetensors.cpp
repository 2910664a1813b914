// safetensors: eight bytes of length, a JSON object that names the arrays, and their bytes without gaps.
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "interop/array_stream.hpp"
#include "interop/header_reader.hpp"
#include "orlop/base/checked.hpp"

namespace orlop::inline v0 {

namespace {

constexpr std::string_view loading = "load_safetensors";
constexpr std::string_view saving = "save_safetensors";
constexpr std::string_view metadata_key = "__metadata__";
constexpr Index length_bytes = 8;
constexpr Index most_header_bytes = 100'000'000;  // the format's own limit
constexpr bool is_little = std::endian::native == std::endian::little;

/// An array as the header describes it.
struct Entry {
  std::string name;
  std::string type;
  std::vector<Index> extents;
  Index begin = 0;  // in the bytes after the header
  Index end = 0;
};

struct Header {
  std::vector<Entry> entries;
  FileMetadata metadata;
  Index data = 0;  // where the bytes begin
};

struct ElementType {
  std::string_view name;
  const DType* dtype;
};

std::span<const ElementType> element_types() {
  static const std::array<ElementType, 3> types{
      {{"F32", &dtypes::Float32}, {"I32", &dtypes::Int32}, {"BOOL", &dtypes::Bool}}};
  return types;
}

const DType* dtype_of(std::string_view name) {
  for (const ElementType& type : element_types())
    if (type.name == name) return type.dtype;
  return nullptr;
}

// --- Reading

std::vector<Index> read_integers(HeaderReader& reader) {
  std::vector<Index> integers;
  reader.expect('[');
  if (reader.accept(']')) return integers;
  do integers.push_back(reader.integer());
  while (reader.accept(','));
  reader.expect(']');
  return integers;
}

/// Calls member(key) with the reader behind each key and colon; a key twice is refused.
template <class Member>
void read_object(HeaderReader& reader, Member member) {
  reader.expect('{');
  if (reader.accept('}')) return;
  std::set<std::string, std::less<>> keys;
  do {
    const auto [key, is_new] = keys.insert(reader.json_string());
    if (!is_new) reader.refuse(text("the key '", *key, "' is there twice"));
    reader.expect(':');
    member(*key);
  } while (reader.accept(','));
  reader.expect('}');
}

Entry read_entry(HeaderReader& reader, std::string name) {
  Entry entry;
  entry.name = std::move(name);
  int members = 0;
  read_object(reader, [&](const std::string& key) {
    ++members;
    if (key == "dtype") {
      entry.type = reader.json_string();
    } else if (key == "shape") {
      entry.extents = read_integers(reader);
    } else if (key == "data_offsets") {
      const std::vector<Index> offsets = read_integers(reader);
      if (offsets.size() != 2 || offsets[0] > offsets[1])
        reader.refuse("data_offsets must be a begin and an end");
      entry.begin = offsets[0];
      entry.end = offsets[1];
    } else {
      reader.refuse(text("the key '", key, "' is unknown"));
    }
  });
  if (members != 3) reader.refuse("an array needs the keys dtype, shape and data_offsets");
  return entry;
}

Header parse(HeaderReader reader) {
  Header header;
  if (reader.peek() != '{') reader.refuse("'{' is missing");
  read_object(reader, [&](const std::string& name) {
    if (name == metadata_key)
      read_object(reader,
                  [&](const std::string& key) { header.metadata.emplace_back(key, reader.json_string()); });
    else
      header.entries.push_back(read_entry(reader, name));
  });
  reader.expect_end();
  return header;
}

[[noreturn]] void refuse_file(const detail::InputFile& file, std::string_view problem) {
  raise<ValueError>(loading, "'", file.path(), "' is no valid safetensors file: ", problem);
}

/// The arrays fill the bytes after the header, one after the other.
void check_extents(const detail::InputFile& file, Header& header) {
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  Index next = 0;
  for (const Entry& entry : header.entries) {
    if (entry.begin != next)
      refuse_file(file, text("'", entry.name, "' begins at byte ", entry.begin, " of the data, where ", next,
                             " is the end of the one before"));
    next = entry.end;
  }
  const Index bytes = file.bytes() - header.data;
  if (next != bytes)
    refuse_file(file,
                text("its arrays take ", next, " bytes from byte ", header.data, ", the file has ", bytes));
}

Header read_header(const detail::InputFile& file) {
  if (file.bytes() < length_bytes) refuse_file(file, text("it has ", file.bytes(), " bytes"));
  std::array<std::byte, length_bytes> length{};
  file.read(length, 0);
  std::uint64_t bytes = 0;
  for (std::size_t i = length.size(); i-- > 0;)
    bytes = bytes * 256 + std::to_integer<std::uint64_t>(length[i]);
  if (bytes > static_cast<std::uint64_t>(std::min(most_header_bytes, file.bytes() - length_bytes)))
    refuse_file(file, text("its header takes ", bytes, " bytes, the file has ", file.bytes() - length_bytes,
                           " and a header at most ", most_header_bytes));
  std::string words(static_cast<std::size_t>(bytes), '\0');
  file.read(std::as_writable_bytes(std::span(words)), length_bytes);
  Header header = parse(HeaderReader(loading, file.path(), words, length_bytes));
  header.data = length_bytes + static_cast<Index>(bytes);
  check_extents(file, header);
  return header;
}

FileArray array_of(const detail::InputFile& file, const Header& header, const Entry& entry) {
  const std::string name = text("'", entry.name, "' in '", file.path(), "'");
  FileArray array{.dtype = dtype_of(entry.type), .extents = entry.extents, .is_swapped = !is_little};
  if (array.dtype == nullptr)
    raise<TypeError>(loading, name, " holds elements of type '", entry.type,
                     "'; only 'F32', 'I32' and 'BOOL' load, leave it out with names=");
  array.offset = header.data + entry.begin;
  const Index bytes = element_count(loading, name, array) * array.dtype->slot_bytes();
  if (bytes != entry.end - entry.begin)
    raise<ValueError>(loading, name, " takes ", bytes, " bytes by its shape and ", entry.end - entry.begin,
                      " by its data_offsets");
  return array;
}

NamedTensors read_entries(const detail::InputFile& file, const Header& header,
                          const std::vector<const Entry*>& chosen, const LoadOptions& options) {
  std::vector<FileArray> arrays;
  Index total = 0;
  for (const Entry* entry : chosen) {  // everything is checked before anything is made
    arrays.push_back(array_of(file, header, *entry));
    total = checked_add(total, entry->end - entry->begin, loading);
  }
  ProgressMeter meter(options.progress, total);
  NamedTensors tensors;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    tensors.emplace_back(chosen[i]->name, read_array(file, arrays[i], options.carrier, meter));
  return tensors;
}

// --- Writing

std::string header_of(const NamedTensors& tensors, const std::vector<std::size_t>& order,
                      const FileMetadata& metadata) {
  std::string json = "{";
  const auto separate = [&] {
    if (json.back() != '{') json += ',';
  };
  if (!metadata.empty()) {
    json += text(json_quoted(metadata_key), ":{");
    for (const auto& [key, value] : metadata) {
      separate();
      json += text(json_quoted(key), ':', json_quoted(value));
    }
    json += '}';
  }
  Index begin = 0;
  for (const std::size_t i : order) {
    const auto& [name, tensor] = tensors[i];
    std::string shape;
    for (const Index extent : tensor.layout().extents()) shape += text(shape.empty() ? "" : ",", extent);
    std::string_view type;
    for (const ElementType& known : element_types())
      if (known.dtype->storage_type() == tensor.dtype().storage_type()) type = known.name;
    const Index end = begin + tensor.size() * tensor.dtype().slot_bytes();
    separate();
    json += text(json_quoted(name), ":{\"dtype\":\"", type, "\",\"shape\":[", shape, "],\"data_offsets\":[",
                 begin, ',', end, "]}");
    begin = end;
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  return json;
}

void check_names(const NamedTensors& tensors, const FileMetadata& metadata) {
  std::set<std::string_view> names{metadata_key};
  for (const auto& [name, tensor] : tensors)
    if (!names.insert(name).second)
      raise<ValueError>(saving, "the name '", name, "' is there twice or reserved; give each Tensor its own");
  std::set<std::string_view> keys;
  for (const auto& [key, value] : metadata)
    if (!keys.insert(key).second) raise<ValueError>(saving, "the metadata key '", key, "' is there twice");
}

}  // namespace

NamedTensors load_safetensors(const std::filesystem::path& path, const LoadOptions& options) {
  const detail::InputFile file(loading, path.native());
  const Header header = read_header(file);
  std::vector<const Entry*> all;
  all.reserve(header.entries.size());
  for (const Entry& entry : header.entries) all.push_back(&entry);
  return read_entries(file, header, all, options);
}

NamedTensors load_safetensors(const std::filesystem::path& path, Sequence<std::string> names,
                              const LoadOptions& options) {
  const detail::InputFile file(loading, path.native());
  const Header header = read_header(file);
  std::map<std::string_view, const Entry*> known;
  for (const Entry& entry : header.entries) known.emplace(entry.name, &entry);
  std::vector<const Entry*> chosen;
  for (const std::string& name : names) {
    const auto found = known.find(name);
    if (found == known.end())
      raise<KeyError>(loading, "'", path.native(), "' has no array '", name, "' among its ", known.size());
    chosen.push_back(found->second);
  }
  return read_entries(file, header, chosen, options);
}

FileMetadata safetensors_metadata(const std::filesystem::path& path) {
  return read_header(detail::InputFile("safetensors_metadata", path.native())).metadata;
}

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const SaveSafetensorsOptions& options) {
  check_names(tensors, options.metadata);
  Index total = 0;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    total =
        checked_add(total, check_saved(saving, text("'", tensors[i].first, "'"), tensors[i].second), saving);
    order.push_back(i);
  }
  // Wide elements first: every array is aligned to its elements.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].second.dtype().slot_bytes() > tensors[b].second.dtype().slot_bytes();
  });
  const std::string json = header_of(tensors, order, options.metadata);
  if (static_cast<Index>(json.size()) > most_header_bytes)
    raise<ValueError>(saving, "the header takes ", json.size(), " bytes; at most ", most_header_bytes);
  std::string header;
  for (std::size_t length = json.size(), i = 0; i < length_bytes; ++i, length /= 256)
    header += static_cast<char>(length % 256);
  header += json;
  Index offset = static_cast<Index>(header.size());
  detail::OutputFile file(saving, path.native(), checked_add(offset, total, saving));
  file.write(std::as_bytes(std::span(header)), 0);
  ProgressMeter meter(options.progress, total);
  for (const std::size_t i : order) {
    const Tensor& tensor = tensors[i].second;
    write_array(file, offset, tensor, true, meter);
    offset += tensor.size() * tensor.dtype().slot_bytes();
  }
  file.commit();
}

}  // namespace orlop::inline v0
