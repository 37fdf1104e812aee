// Pictures between Python and the engines: bytes of pixels, row by row, and files.
#include <string_view>

#include "binding/bindings.h"
#include "media/decode.h"

namespace quaver::python {

namespace py = pybind11;

namespace {

std::span<const std::byte> bytes_of(std::string_view data) {
  return std::as_bytes(std::span(data.data(), data.size()));
}

std::vector<uint8_t> pixels(int width, int height, int channels, std::string_view data) {
  require(width > 0 && height > 0, ErrorKind::kInvalidInput, "a picture of ", width, "x", height,
          " has no pixels");
  const size_t wanted =
      static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels);
  require(data.size() == wanted, ErrorKind::kInvalidInput, "a picture of ", width, "x", height, " has ",
          data.size(), " bytes, expected ", wanted);
  return {data.begin(), data.end()};
}

Picture picture_of(int width, int height, std::string_view rgb) {
  return {std::make_shared<const Image>(Image{width, height, pixels(width, height, 3, rgb)})};
}

Mask mask_of(int width, int height, std::string_view gray) {
  return {std::make_shared<const GrayImage>(GrayImage{width, height, pixels(width, height, 1, gray)})};
}

Picture decode_picture(std::string_view file, const std::string& what) {
  py::gil_scoped_release unlocked;
  return {std::make_shared<const Image>(decode_image(bytes_of(file), what))};
}

Mask decode_gray(std::string_view file, const std::string& what) {
  py::gil_scoped_release unlocked;
  return {std::make_shared<const GrayImage>(decode_mask(bytes_of(file), what))};
}

py::bytes bytes(const std::vector<uint8_t>& data) {
  return py::bytes(reinterpret_cast<const char*>(data.data()), data.size());
}

}  // namespace

void bind_pictures(py::module_& module) {
  py::class_<Picture>(module, "Picture")
      .def(py::init(&picture_of), py::arg("width"), py::arg("height"), py::arg("rgb"))
      .def_static("decode", &decode_picture, py::arg("file"), py::arg("what"))
      .def_property_readonly("width", [](const Picture& self) { return self.image->width; })
      .def_property_readonly("height", [](const Picture& self) { return self.image->height; })
      .def_property_readonly("rgb", [](const Picture& self) { return bytes(self.image->rgb); });
  py::class_<Mask>(module, "Mask")
      .def(py::init(&mask_of), py::arg("width"), py::arg("height"), py::arg("gray"))
      .def_static("decode", &decode_gray, py::arg("file"), py::arg("what"))
      .def_property_readonly("width", [](const Mask& self) { return self.image->width; })
      .def_property_readonly("height", [](const Mask& self) { return self.image->height; })
      .def_property_readonly("gray", [](const Mask& self) { return bytes(self.image->gray); });
}

}  // namespace quaver::python
