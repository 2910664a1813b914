// orlop.einops: the compilers of commands, as plain values that the Python module makes its records of, and
// the functions that take a command.
#include "einops.hpp"

#include "dtype.hpp"
#include "layout.hpp"
#include "orlop/operation/command.hpp"
#include "orlop/operation/functional.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

std::string to_command(nb::handle value, std::string_view name) {
  if (!PyUnicode_Check(value.ptr()))
    raise<TypeError>("command", name, " must be a str: got ", python_type_name(value),
                     "; it follows the Tensors and names their modes, as in \"row column -> row\"");
  const Py_ssize_t length = PyUnicode_GET_LENGTH(value.ptr());
  std::string characters;
  characters.reserve(static_cast<std::size_t>(length));
  for (Py_ssize_t i = 0; i < length; ++i) {
    const Py_UCS4 character = PyUnicode_READ_CHAR(value.ptr(), i);
    characters += character < 0x80 ? static_cast<char>(character) : '\xff';
  }
  return characters;
}

namespace {

// --- The compilers

nb::tuple from_symbol_ids(const std::vector<SymbolId>& ids) {
  nb::list pairs;
  for (const SymbolId& entry : ids) pairs.append(nb::make_tuple(entry.symbol, entry.id));
  return nb::tuple(pairs);
}

nb::tuple from_symbols(const std::vector<std::string>& symbols) {
  nb::list names;
  for (const std::string& symbol : symbols) names.append(symbol);
  return nb::tuple(names);
}

nb::list lexed(nb::handle command) {
  nb::list tokens;
  for (const Token& token : lex(to_command(command, "command")))
    tokens.append(nb::make_tuple(value_of(token.kind), token.value, token.start, token.end));
  return tokens;
}

/// A token's fields: the name of its kind, its text, start and end.
Token to_token(nb::handle fields) {
  const auto items = nb::cast<nb::tuple>(fields);
  const std::string kind = to_command(items[0], "Token.kind");
  for (const TokenKind each : {TokenKind::left_paren, TokenKind::right_paren, TokenKind::arrow,
                               TokenKind::comma, TokenKind::one, TokenKind::symbol})
    if (value_of(each) == kind)
      return {each, to_command(items[1], "Token.value"), to_index(items[2], "Token", "start"),
              to_index(items[3], "Token", "end")};
  raise<TypeError>("Token", "kind must be a TokenKind: got ", kind);
}

nb::tuple layout_reference_fields(nb::list tokens) {
  std::vector<Token> words;
  for (const nb::handle token : tokens) words.push_back(to_token(token));
  const LayoutReference reference = parse_layout_ref(words);
  return nb::make_tuple(from_tree(reference.tree), from_symbol_ids(reference.symbol_ids));
}

nb::tuple rearrange_fields(nb::handle command) {
  const RearrangeSpec& spec = parse_rearrange(to_command(command, "command"));
  return nb::make_tuple(from_tree(spec.selection), from_tree(spec.output), from_symbol_ids(spec.symbol_ids));
}

nb::tuple reduce_fields(nb::handle command) {
  const ReduceSpec& spec = parse_reduce(to_command(command, "command"));
  return nb::make_tuple(from_tree(spec.selection), from_tree(spec.output), from_tree(spec.reduced),
                        from_tree(spec.rearrange_output), from_symbol_ids(spec.symbol_ids));
}

nb::tuple einsum_fields(nb::handle command) {
  const EinsumSpec& spec = parse_einsum(to_command(command, "command"));
  return nb::make_tuple(from_tree(spec.lhs_selection), from_tree(spec.rhs_selection),
                        from_tree(spec.lhs_rearrange_output), from_tree(spec.rhs_rearrange_output),
                        from_tree(spec.matmul_output_selection), from_tree(spec.output),
                        from_symbol_ids(spec.lhs_symbol_ids), from_symbol_ids(spec.rhs_symbol_ids),
                        from_symbols(spec.common_symbols), from_symbols(spec.union_symbols),
                        from_symbols(spec.contraction_symbols), from_symbols(spec.batch_symbols),
                        from_tree(spec.lhs_union_output), from_tree(spec.rhs_union_output),
                        from_tree(spec.union_selection), from_tree(spec.general_output));
}

// --- The functions: a command's errors come before the operands' (M707)

Tensor bound_rearrange(nb::handle tensor, nb::handle description) {
  const std::string command = to_command(description, "description");
  static_cast<void>(parse_rearrange(command));
  return rearrange(to_tensor(tensor, "rearrange", "tensor"), command);
}

/// reduce_sum, under the name that it was called by.
template <const char* name>
Tensor bound_sum(nb::handle tensor, nb::handle description, nb::handle accumulator_dtype) {
  const std::string command = to_command(description, "description");
  static_cast<void>(parse_reduce(command));
  const Tensor operand = to_tensor(tensor, name, "tensor");
  if (accumulator_dtype.is_none()) return reduce_sum(operand, command);
  return reduce_sum(operand, command, {.accumulator_dtype = to_dtype(accumulator_dtype, "accumulator")});
}

using Reduction = Tensor (*)(const Tensor&, std::string_view);

template <Reduction function>
void bind_reduction(nb::module_& module, const char* name, const char* doc) {
  const std::string signature = text("def ", name, "(tensor: Tensor, description: str) -> Tensor");
  module.def(
      name,
      [name](nb::handle tensor, nb::handle description) {
        const std::string command = to_command(description, "description");
        static_cast<void>(parse_reduce(command));
        return function(to_tensor(tensor, name, "tensor"), command);
      },
      "tensor"_a.none(), "description"_a.none(), nb::sig(signature.c_str()), doc);
}

Tensor bound_einsum(nb::handle lhs, nb::handle rhs, nb::handle description) {
  const std::string command = to_command(description, "description");
  static_cast<void>(parse_einsum(command));
  for (const nb::handle operand : {lhs, rhs}) static_cast<void>(nb::object(operand.attr("layout")));
  return einsum(to_tensor(lhs, "einsum", "lhs"), to_tensor(rhs, "einsum", "rhs"), command);
}

constexpr char reduce_name[] = "reduce";
constexpr char reduce_sum_name[] = "reduce_sum";

}  // namespace

void bind_einops(nb::module_& module) {
  module.def(
      "reduce_sum", &bound_sum<reduce_sum_name>,
      nb::sig("def reduce_sum(tensor: Tensor, description: str, *, accumulator_dtype: DType | None = None) "
              "-> Tensor"),
      "tensor"_a.none(), "description"_a.none(), nb::kw_only(), "accumulator_dtype"_a = nb::none(),
      R"(The sum over the dimensions that the description leaves out, compact in the kept ones' shape (P64):
`reduce_sum(t, "row column -> row")`. Int32 is exact; OverflowError where a sum leaves it.
Float32 is added in accumulator_dtype, Float32 or Float64. ValueError for the description.

>>> from orlop import friendly
>>> friendly.to_list(orlop.reduce_sum(friendly.tensor([[1, 5], [7, 3]]), "row column -> row"))
[6.0, 10.0]
>>> orlop.reduce_sum(friendly.tensor([[1, 5], [7, 3]]), "row column -> row column")
Traceback (most recent call last):
    ...
ValueError: [command] Reduce command must omit at least one dimension)");
  bind_reduction<&reduce_prod>(
      module, "reduce_prod",
      R"(The product over the dimensions that the description leaves out: Float32 from 1 on in ordinal order,
Int32 exact; OverflowError where a product leaves it (P64). ValueError for the description.

>>> from orlop import friendly
>>> friendly.to_list(orlop.reduce_prod(friendly.tensor([[1, 5], [7, 3]]), "row column -> column"))
[7.0, 15.0])");
  bind_reduction<&reduce_max>(
      module, "reduce_max",
      R"(The greatest value over the dimensions that the description leaves out; the first NaN wins, and +0 beats -0
(P64). ValueError for the description.

>>> from orlop import friendly
>>> friendly.to_list(orlop.reduce_max(friendly.tensor([[1, 5], [7, 3]]), "row column -> row"))
[5.0, 7.0])");
  bind_reduction<&reduce_min>(
      module, "reduce_min",
      R"(The least value over the dimensions that the description leaves out; the first NaN wins, and -0 beats +0
(P64). ValueError for the description.

>>> from orlop import friendly
>>> friendly.to_list(orlop.reduce_min(friendly.tensor([[1, 5], [7, 3]]), "row column -> row"))
[1.0, 3.0])");
  bind_reduction<&argmax>(
      module, "argmax",
      R"(Where the greatest value is among the dimensions that the description leaves out: its first ordinal there, as
Int32 (P64). ValueError for the description.

>>> from orlop import friendly
>>> friendly.to_list(orlop.argmax(friendly.tensor([[1, 5], [7, 7]]), "row column -> row"))
[1, 0])");
  bind_reduction<&argmin>(
      module, "argmin",
      R"(Where the least value is among the dimensions that the description leaves out: its first ordinal there, as
Int32 (P64). ValueError for the description.

>>> from orlop import friendly
>>> friendly.to_list(orlop.argmin(friendly.tensor([[1, 5], [7, 7]]), "row column -> row"))
[0, 0])");
  module.def(
      "einsum", &bound_einsum, nb::sig("def einsum(lhs: Tensor, rhs: Tensor, description: str) -> Tensor"),
      "lhs"_a.none(), "rhs"_a.none(), "description"_a.none(),
      R"(The contraction of two Tensors: `einsum(a, b, "i k, j k -> i j")`. Symbols of both that the output
leaves out are summed; those of one must be kept. ValueError where a shared dimension has two sizes (M707).

>>> from orlop import einops, friendly
>>> a = friendly.tensor([[1, 2], [3, 4]])
>>> friendly.to_list(einops.einsum(a, friendly.tensor([[1, 1]]), "i k, j k -> i j"))
[3.0, 7.0])");

  nb::module_ native = module.def_submodule("_einops");
  native.def("lex", lexed, "command"_a.none());
  native.def("layout_reference_fields", layout_reference_fields, "tokens"_a);
  native.def("rearrange_fields", rearrange_fields, "command"_a.none());
  native.def("reduce_fields", reduce_fields, "command"_a.none());
  native.def("einsum_fields", einsum_fields, "command"_a.none());
  native.def(
      "rearrange", &bound_rearrange, nb::sig("def rearrange(tensor: Tensor, description: str) -> Tensor"),
      "tensor"_a.none(), "description"_a.none(),
      R"(The view that the description spells: `rearrange(t, "b (h w) -> h w b")` (M707). TypeError for no Tensor or no str,
ValueError where the description is malformed or does not fit the modes.

>>> from orlop import einops, friendly
>>> einops.rearrange(friendly.zeros(2, 3), "row column -> column row").shape
(3, 2)
>>> einops.rearrange(friendly.zeros(2, 3), "row -> row")
Traceback (most recent call last):
    ...
ValueError: [Layout] layout and tree profile do not match: 1 named for the modes of Shape<(2, 3)>; ...)");
  native.def("reduce", &bound_sum<reduce_name>,
             nb::sig("def reduce(tensor: Tensor, description: str, *, accumulator_dtype: DType | None = "
                     "None) -> Tensor"),
             "tensor"_a.none(), "description"_a.none(), nb::kw_only(), "accumulator_dtype"_a = nb::none(),
             R"(The sum over the dimensions that the description leaves out, as reduce_sum gives it, with its
accumulator_dtype and its errors (M707).

>>> from orlop import einops, friendly
>>> friendly.to_list(einops.reduce(friendly.tensor([[1, 2], [3, 4]]), "row column -> row"))
[3.0, 7.0])");
}

}  // namespace orlop::bindings
