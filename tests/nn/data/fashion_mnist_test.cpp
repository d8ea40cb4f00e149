#include "nn/data/fashion_mnist.h"

#include <zlib.h>

#include <fstream>

#include "tests/support/environment.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace brigade::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

void write_gz(const std::filesystem::path& path, const Bytes& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

/// An IDX file of `data` with the given extents, each below 256.
Bytes idx(const Bytes& extents, const Bytes& data) {
  Bytes bytes{0, 0, 8, static_cast<std::uint8_t>(extents.size())};
  for (const std::uint8_t extent : extents) {
    bytes.insert(bytes.end(), {0, 0, 0, extent});
  }
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

class FashionMnist : public ::testing::Test {
 protected:
  std::filesystem::path write(const char* name, const Bytes& bytes) const {
    write_gz(dir_ / name, bytes);
    return dir_ / name;
  }
  std::string at(const char* name) const { return (dir_ / name).string() + ": "; }

  TemporaryDirectory dir_;
};

TEST_F(FashionMnist, ReadsImagesAsFractionsAndLabelsAsNumbers) {
  const auto images = write("images", idx({3, 1, 2}, {0, 255, 51, 102, 1, 2}));
  const auto labels = write("labels", idx({3}, {9, 0, 4}));
  const ImageDataset data(images, labels, 100);
  EXPECT_EQ(data.size(), 3);
  EXPECT_EQ(data.input_width(), 2);
  const std::vector<std::int64_t> samples{1, 0};
  EXPECT_EQ(load_batch(data, samples, kCpu).inputs.to_vector<float>(),
            (std::vector<float>{0.2F, 0.4F, 0.0F, 1.0F}));
  EXPECT_EQ(load_batch(data, samples, kCpu).targets.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 9}));
  EXPECT_EQ(load_batch(data, {}, kCpu).inputs.shape(), Shape({0, 2}));
  EXPECT_EQ(ImageDataset(images, labels, 2).size(), 2);
}

TEST_F(FashionMnist, ChecksumIsThatOfTheSamplesInUse) {
  const auto images = write("images", idx({3, 1, 2}, {0, 255, 51, 102, 1, 2}));
  const auto other_image = write("other_image", idx({3, 1, 2}, {0, 255, 51, 103, 1, 2}));
  const auto labels = write("labels", idx({3}, {9, 0, 4}));
  const auto other_label = write("other_label", idx({3}, {9, 1, 4}));
  const std::uint64_t expected = ImageDataset(images, labels, 100).checksum();
  EXPECT_EQ(ImageDataset(images, labels, 3).checksum(), expected);
  EXPECT_NE(ImageDataset(images, labels, 2).checksum(), expected);
  EXPECT_NE(ImageDataset(other_image, labels, 3).checksum(), expected);
  EXPECT_NE(ImageDataset(images, other_label, 3).checksum(), expected);
  EXPECT_EQ(ImageDataset(other_image, labels, 1).checksum(),
            ImageDataset(images, labels, 1).checksum());
}

TEST_F(FashionMnist, RefusesWhatIsNotAnIdxFile) {
  write("magic", {0, 0, 9, 1, 0, 0, 0, 0});
  EXPECT_ERROR_OF(UsageError, read_idx(dir_ / "magic", 1),
                  at("magic") + "expected the IDX magic 0 0 8 1, got 0 0 9 1");
  write("dimensions", idx({2, 2}, {1, 2, 3, 4}));
  EXPECT_ERROR_OF(UsageError, read_idx(dir_ / "dimensions", 1),
                  at("dimensions") + "expected the IDX magic 0 0 8 1, got 0 0 8 2");
  write("tiny", {0, 0});
  EXPECT_ERROR_OF(UsageError, read_idx(dir_ / "tiny", 1),
                  at("tiny") + "expected an IDX header of 8 bytes, got 2 bytes");
}

TEST_F(FashionMnist, RefusesFilesShorterOrLongerThanTheySay) {
  write("short", idx({4}, {1, 2, 3}));
  EXPECT_ERROR_OF(UsageError, read_idx(dir_ / "short", 1),
                  at("short") + "expected 4 bytes after the header, got 3");
  write("long", idx({2}, {1, 2, 3}));
  EXPECT_ERROR_OF(UsageError, read_idx(dir_ / "long", 1),
                  at("long") + "expected 2 bytes after the header, got more");
  Bytes huge = idx({0, 0, 0}, {});
  std::fill(huge.begin() + 4, huge.end(), std::uint8_t{255});
  write("huge", huge);
  EXPECT_ERROR_OF(UsageError, read_idx(dir_ / "huge", 3),
                  at("huge") + "its extents multiply to more than a file can hold");
}

TEST_F(FashionMnist, RefusesFilesWithoutSamples) {
  write("empty", idx({2, 0, 2}, {}));
  EXPECT_ERROR_OF(UsageError, read_idx(dir_ / "empty", 3),
                  at("empty") + "expected extents above 0, got 0");
}

TEST_F(FashionMnist, RefusesMoreSamplesThanThereAre) {
  write("train-images-idx3-ubyte.gz", idx({3, 1, 1}, {1, 2, 3}));
  write("train-labels-idx1-ubyte.gz", idx({3}, {1, 2, 3}));
  write("t10k-images-idx3-ubyte.gz", idx({1, 1, 1}, {1}));
  write("t10k-labels-idx1-ubyte.gz", idx({1}, {1}));
  EXPECT_EQ(load_fashion_mnist(dir_.path(), 2).train->size(), 2);
  EXPECT_EQ(load_fashion_mnist(dir_.path(), 0).train->size(), 3);
  EXPECT_THAT([&] { load_fashion_mnist(dir_.path(), 4); },
              ::testing::ThrowsMessage<UsageError>(
                  ::testing::HasSubstr("--train-samples: expected at most 3")));
}

TEST_F(FashionMnist, IsReadFromWhereTheEnvironmentSays) {
  write("train-images-idx3-ubyte.gz", idx({3, 1, 1}, {1, 2, 3}));
  write("train-labels-idx1-ubyte.gz", idx({3}, {1, 2, 3}));
  write("t10k-images-idx3-ubyte.gz", idx({1, 1, 1}, {1}));
  write("t10k-labels-idx1-ubyte.gz", idx({1}, {1}));
  const test::EnvironmentVariable here("BRIGADE_DATA_DIR", dir_.path());
  EXPECT_EQ(fashion_mnist()->size(), 3);
  EXPECT_EQ(fashion_mnist(Split::test)->size(), 1);
}

TEST_F(FashionMnist, RefusesAGzipFileThatIsCutOff) {
  const auto whole = write("whole", idx({200}, Bytes(200, 7)));
  std::filesystem::resize_file(whole, std::filesystem::file_size(whole) - 10);
  EXPECT_THAT([&] { read_idx(whole, 1); },
              ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("damaged or cut off")));
}

TEST_F(FashionMnist, RefusesLabelsThatDoNotFit) {
  const auto images = write("images", idx({2, 1, 1}, {1, 2}));
  EXPECT_ERROR_OF(UsageError, ImageDataset(images, write("few", idx({1}, {1})), 9),
                  at("few") + "expected 2 labels, one per image, got 1");
  EXPECT_ERROR_OF(UsageError, ImageDataset(images, write("bad", idx({2}, {1, 10})), 9),
                  at("bad") + "expected labels below 10, got 10 for image 1");
}

TEST_F(FashionMnist, NamesThePackageWhenFilesAreMissing) {
  EXPECT_THAT([&] { load_fashion_mnist(dir_.path(), 0); },
              ::testing::ThrowsMessage<UsageError>(
                  ::testing::AllOf(::testing::HasSubstr("train-images-idx3-ubyte.gz: not found"),
                                   ::testing::HasSubstr("apt-get install dataset-fashion-mnist"))));
}

}  // namespace
}  // namespace brigade::data
