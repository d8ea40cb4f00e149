#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/io/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

/// A file with this header text and `data_bytes` of data.
std::string safetensors(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string content(sizeof length, '\0');
  std::memcpy(content.data(), &length, sizeof length);
  return content + header + std::string(data_bytes, '\0');
}

struct BadFile {
  const char* name;
  std::string content;
  const char* fault;
};

class SafetensorsRefuses : public testing::TestWithParam<BadFile> {};

TEST_P(SafetensorsRefuses, ABadFileWithAClearReason) {
  const TemporaryDirectory dir;
  const auto path = dir / "bad.safetensors";
  std::ofstream(path, std::ios::binary) << GetParam().content;
  const std::string expected = fmt::format("cannot read {}: {}", path.string(), GetParam().fault);
  EXPECT_THAT([&] { load_safetensors(path); },
              testing::ThrowsMessage<UsageError>(testing::StartsWith(expected)));
}

const std::vector<BadFile> kBadFiles{
    {"Empty", "", "not a safetensors file: it has 0 bytes"},
    {"ShorterThanALength", "abc", "not a safetensors file: it has 3 bytes"},
    {"Truncated", safetensors("{}", 0).substr(0, 9),
     "not a safetensors file: header of 2 bytes in a file of 9"},
    {"HeaderOfAllOnes", std::string(16, '\xff'),
     "not a safetensors file: header of 18446744073709551615 bytes in a file of 16"},
    {"PickledStateDict", "PK\x03\x04 this is a zip archive", "not a safetensors file: header of"},
    {"HeaderThatIsNotJson", safetensors("{'a': 1}", 0), "the header is not valid JSON:"},
    {"HeaderWithStrangeBytes", safetensors("{\"a\": \xff\x1b}", 0),
     "the header is not valid JSON: [json.exception.parse_error.101] parse error at line 1, column "
     "7: syntax error while parsing value - invalid literal; last read: '\"a\": ?'"},
    {"HeaderNestedWithoutEnd", safetensors("{\"a\":" + std::string(200'000, '['), 0),
     "the header is nested too deeply"},
    {"HeaderThatIsAList", safetensors("[]", 0), "the header is not a JSON object"},
    {"EntryThatIsANumber", safetensors(R"({"a":1})", 0), "tensor a: "},
    {"EntryWithoutDtype", safetensors(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4),
     "tensor a: "},
    {"UnknownDtype", safetensors(R"({"a":{"dtype":"C64","shape":[2],"data_offsets":[0,16]}})", 16),
     "tensor a has dtype C64, known are F32, F64, U8, I64, F16, BF16"},
    {"NegativeExtent", safetensors(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
     "tensor a: expected a list of non-negative integers, got [-1]"},
    {"FractionalExtent",
     safetensors(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4),
     "tensor a: expected a list of non-negative integers, got [1.5]"},
    {"FiveDimensions",
     safetensors(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1],"data_offsets":[0,4]}})", 4),
     "tensor a: shape: expected at most 4 dimensions, got 5"},
    {"ThreeOffsets", safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 8),
     "tensor a has data_offsets [0,4,8] in 8 bytes of data"},
    {"OffsetsBackwards",
     safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
     "tensor a has data_offsets [4,0] in 4 bytes of data"},
    {"OffsetsBeyondTheFile",
     safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
     "tensor a has data_offsets [0,8] in 4 bytes of data"},
    {"ShapeThatDoesNotFillItsBytes",
     safetensors(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
     "tensor a of shape [3] and dtype F32 does not fill data_offsets [0,8]"},
    {"ProductBeyond64Bits",
     safetensors(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                 0),
     "tensor a: shape: more than 2^58 elements in the first 2 dimensions"},
    {"HugeExtentBesideZero",
     safetensors(R"({"a":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}})",
                 0),
     "tensor a: shape: negative extent -1 in dimension 1"},
    {"MoreElementsThanAShapeMayHave",
     safetensors(R"({"a":{"dtype":"U8","shape":[0,1152921504606846976],"data_offsets":[0,0]}})", 0),
     "tensor a: shape: more than 2^58 elements in the first 2 dimensions"},
    {"Overlap",
     safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                 R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                 12),
     "tensor b begins at byte 4 of the data, expected 8: tensors overlap or leave a hole"},
    {"Hole",
     safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                 R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                 12),
     "tensor b begins at byte 8 of the data, expected 4: tensors overlap or leave a hole"},
    {"TrailingData", safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5),
     "the data has 5 bytes, the tensors take 4"},
    {"NameTwice",
     safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                 R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                 8),
     "tensor \"a\" is listed twice"},
};

INSTANTIATE_TEST_SUITE_P(Files, SafetensorsRefuses, testing::ValuesIn(kBadFiles),
                         [](const auto& bad) { return std::string(bad.param.name); });

TEST(Safetensors, NamesAMissingFile) {
  EXPECT_ERROR_OF(UsageError, load_safetensors("/nonexistent/w.safetensors"),
                  "cannot read /nonexistent/w.safetensors: No such file or directory");
}

TEST(Safetensors, RefusesADirectory) {
  const TemporaryDirectory dir;
  EXPECT_ERROR_OF(UsageError, load_safetensors(dir.path()),
                  fmt::format("cannot read {}: it is not a regular file", dir.path().string()));
}

TEST(Safetensors, AcceptsEntriesInAnyOrderAndReturnsThemInTheOrderOfTheirData) {
  const TemporaryDirectory dir;
  std::ofstream(dir / "w", std::ios::binary)
      << safetensors(R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},)"
                     R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
                     7);
  const NamedTensors loaded = load_safetensors(dir / "w");
  ASSERT_EQ(loaded.size(), 2U);
  EXPECT_EQ(loaded[0].first, "a");
  EXPECT_EQ(loaded[0].second.shape(), Shape{});
  EXPECT_EQ(loaded[1].first, "b");
}

}  // namespace
}  // namespace brigade
