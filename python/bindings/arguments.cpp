// Python values as arguments and results: see arguments.hpp.
#include "arguments.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "orlop/base/message.hpp"

namespace orlop::bindings {

std::string_view utf8(nb::handle string) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(string.ptr(), &size);
  if (data == nullptr) throw_python_error();
  return {data, static_cast<std::size_t>(size)};
}

bool is_text(nb::handle value) {
  if (PyUnicode_AsUTF8AndSize(value.ptr(), nullptr) != nullptr) return true;
  if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) throw_python_error();
  PyErr_Clear();
  return false;
}

std::string to_text(nb::handle value) {
  if (is_text(value)) return std::string(utf8(value));
  // Nothing here has such a name; where it is looked for or told, escapes stand for what is no text.
  const nb::object escaped = nb::steal(PyUnicode_AsEncodedString(value.ptr(), "utf-8", "backslashreplace"));
  if (!escaped.is_valid()) throw_python_error();
  return {PyBytes_AS_STRING(escaped.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(escaped.ptr()))};
}

std::string to_text(nb::handle value, std::string_view what, std::string_view field) {
  if (!PyUnicode_Check(value.ptr()))
    raise<TypeError>(what, field, " must be a str: got ", python_type_name(value));
  if (!is_text(value))
    raise<ValueError>(what, field, " must be text: got '", to_text(value),
                      "'; a lone surrogate is none, leave it out");
  return to_text(value);
}

std::string python_type_name(nb::handle value) {
  const nb::handle type = value.type();
  const auto name = to_text(type.attr("__name__"));
  // NumPy's bool is none: without its module a message would ask for what it says it got.
  return name == "bool" && !PyBool_Check(value.ptr()) ? text(to_text(type.attr("__module__")), ".", name)
                                                      : name;
}

nb::object to_iterator(nb::handle value, std::string_view what, std::string_view name) {
  nb::object iterator = nb::steal(PyObject_GetIter(value.ptr()));
  if (iterator.is_valid()) return iterator;
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw_python_error();
  PyErr_Clear();
  raise<TypeError>(what, name, " must be iterable: got ", python_type_name(value));
}

std::string to_file_name(nb::handle text) {
  const nb::object encoded = nb::steal(PyUnicode_EncodeFSDefault(text.ptr()));
  if (!encoded.is_valid()) throw_python_error();
  return {PyBytes_AS_STRING(encoded.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(encoded.ptr()))};
}

std::filesystem::path to_path(nb::handle value, std::string_view what) {
  if (!PyUnicode_Check(value.ptr()) && !PyBytes_Check(value.ptr()) &&
      !nb::hasattr(value.type(), "__fspath__"))
    raise<TypeError>(what, "path must be a str, bytes or os.PathLike: got ", python_type_name(value));
  const nb::object path = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.is_valid()) throw_python_error();
  if (PyUnicode_Check(path.ptr())) return to_file_name(path);
  return std::string(PyBytes_AS_STRING(path.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(path.ptr())));
}

nb::tuple to_finite_tuple(nb::handle value, std::string_view what, std::string_view field) {
  if (PyTuple_CheckExact(value.ptr())) return nb::borrow<nb::tuple>(value);
  const nb::object iterator = nb::steal(PyObject_GetIter(value.ptr()));
  if (!iterator.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw_python_error();
    PyErr_Clear();
    raise<TypeError>(what, field, " must be a finite iterable: got ", python_type_name(value));
  }
  const nb::object items = nb::steal(PySequence_Tuple(iterator.ptr()));
  if (!items.is_valid()) throw_python_error();
  return nb::borrow<nb::tuple>(items);
}

std::optional<Index> detail::index_protocol(nb::handle value, std::string_view what, std::string_view name,
                                            bool allow_bool) {
  if (!allow_bool && PyBool_Check(value.ptr()))
    raise<TypeError>(what, name, " must be an integer, not a bool");
  if (!PyIndex_Check(value.ptr()))
    raise<TypeError>(what, name, " must be an integer: got ", python_type_name(value));
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) throw_python_error();
  int overflow = 0;
  const long long result = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) return std::nullopt;
  if (result == -1 && PyErr_Occurred() != nullptr) throw_python_error();
  return static_cast<Index>(result);
}

namespace {

bool is_zero(nb::handle number) {
  const int truth = PyObject_IsTrue(number.ptr());
  if (truth < 0) throw_python_error();
  return truth == 0;
}

// The binary32 nearest to numerator / denominator, one rounding: 64 leading bits and a sticky bit decide it.
float round_ratio(const nb::object& numerator, const nb::object& denominator) {
  const int negative = PyObject_RichCompareBool(numerator.ptr(), nb::int_(0).ptr(), Py_LT);
  if (negative < 0) throw_python_error();
  const nb::object magnitude = negative == 1 ? nb::object(-numerator) : numerator;
  const auto bits = [](const nb::object& number) { return nb::cast<long long>(number.attr("bit_length")()); };
  const long long shift = 66 - (bits(magnitude) - bits(denominator));
  const nb::object scaled = shift >= 0 ? magnitude << nb::int_(shift) : magnitude;
  const nb::object divisor = shift >= 0 ? denominator : denominator << nb::int_(-shift);
  const nb::object parts = nb::steal(PyNumber_Divmod(scaled.ptr(), divisor.ptr()));
  if (!parts.is_valid()) throw_python_error();
  nb::object quotient = parts[0];
  const bool sticky = !is_zero(nb::object(parts[1]));
  // 66 or 67 bits: keep 62 and fold the rest into the sticky bit.
  const nb::object low = quotient & nb::int_(31);
  quotient = quotient >> nb::int_(5);
  auto leading = nb::cast<std::uint64_t>(quotient);
  if (sticky || nb::cast<int>(low) != 0) leading |= 1;
  // One rounding even where the result is subnormal: the value is rounded to its final precision here.
  const long long exponent = 5 - shift;
  const long long width = 64 - __builtin_clzll(leading | 1);
  long long drop = width - 24;
  if (exponent + drop < -149) drop = -149 - exponent;
  float result;
  if (drop >= 64) {
    result = 0.0F;
  } else {
    std::uint64_t kept = leading >> drop;
    const std::uint64_t rest = leading & ((std::uint64_t{1} << drop) - 1);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
    const long long scale = exponent + drop;
    result = scale > 200 ? INFINITY : std::ldexp(static_cast<float>(kept), static_cast<int>(scale));
  }
  return negative == 1 ? -result : result;
}

// Kept for the process. No guarded static: the import may let the interpreter go, and whoever holds it then
// must not wait here.
nb::handle number_class(PyObject*& kept, const char* name) {
  if (kept == nullptr) {
    nb::object fresh = nb::module_::import_("numbers").attr(name);
    if (kept == nullptr) kept = fresh.release().ptr();
  }
  return kept;
}
nb::handle real_type() {
  static PyObject* type = nullptr;
  return number_class(type, "Real");
}
nb::handle integral_type() {
  static PyObject* type = nullptr;
  return number_class(type, "Integral");
}

Scalar from_integer(nb::handle number) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) {
    if (small == -1 && PyErr_Occurred() != nullptr) throw_python_error();
    return Scalar(static_cast<std::int64_t>(small));
  }
  return Scalar(Scalar::BigInteger{round_ratio(nb::borrow(number), nb::int_(1))});
}

}  // namespace

std::optional<Scalar> try_scalar(nb::handle value) {
  PyObject* object = value.ptr();
  if (PyFloat_CheckExact(object)) return Scalar(PyFloat_AS_DOUBLE(object));
  if (PyBool_Check(object)) return Scalar(object == Py_True);
  if (PyLong_Check(object)) return from_integer(value);
  const int is_real = PyObject_IsInstance(object, real_type().ptr());
  if (is_real < 0) throw_python_error();
  if (is_real == 0) return std::nullopt;
  const int is_integral = PyObject_IsInstance(object, integral_type().ptr());
  if (is_integral < 0) throw_python_error();
  if (is_integral == 1) {
    const nb::object number = nb::steal(PyNumber_Index(object));
    if (!number.is_valid()) throw_python_error();
    return from_integer(number);
  }
  if (!PyFloat_Check(object) && nb::hasattr(value, "numerator") && nb::hasattr(value, "denominator")) {
    const nb::object numerator = value.attr("numerator");
    if (is_zero(numerator)) return Scalar(0.0);
    return Scalar(round_ratio(numerator, nb::object(value.attr("denominator"))));
  }
  const double number = PyFloat_AsDouble(object);
  if (number == -1.0 && PyErr_Occurred() != nullptr) throw_python_error();
  return Scalar(number);
}

Scalar to_scalar(nb::handle value, std::string_view what, std::string_view name) {
  if (const auto scalar = try_scalar(value)) return *scalar;
  raise<TypeError>(what, name, " must be a real number: got ", python_type_name(value));
}

nb::object from_scalar(const Scalar& value) {
  if (value.is_bool()) return nb::bool_(value.as_bool());
  if (const auto integer = value.as_integer()) return nb::int_(*integer);
  return nb::float_(value.to_binary64());
}

bool to_bool(nb::handle value, std::string_view what, std::string_view name) {
  if (value.ptr() == Py_True) return true;
  if (value.ptr() == Py_False) return false;
  raise<TypeError>(what, name, " must be a bool: got ", python_type_name(value), "; use True or False");
}

}  // namespace orlop::bindings
