// Datasets: what is read, how rows are cut, and every way in which a dataset is refused (F052).
#include "quantize/calibration.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "base/remove_tree.h"
#include "quantize/fake_tokenizer.h"

namespace quaver::quantize {
namespace {

namespace fs = std::filesystem;

class CalibrationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    remove_tree(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { remove_tree(folder_); }

  std::string file(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }
  CalibrationSet load(const std::string& dataset, int64_t nsamples, int64_t seqlen,
                      bool allow_small = false) {
    return load_calibration(
        tokenizer_, {.dataset = dataset, .nsamples = nsamples, .seqlen = seqlen, .allow_small = allow_small});
  }
  std::string error_of(const std::string& dataset, int64_t nsamples = 4, int64_t seqlen = 16) {
    try {
      load(dataset, nsamples, seqlen);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  fs::path folder_;
  ByteTokenizer tokenizer_;
};

std::string lines_of(const std::vector<int>& lengths) {
  std::string text;
  for (size_t i = 0; i < lengths.size(); ++i)
    text += "{\"text\": \"" + std::string(static_cast<size_t>(lengths[i]), static_cast<char>('a' + i % 26)) +
            "\"}\n";
  return text;
}

TEST_F(CalibrationTest, F052ShortDocumentsAreJoinedAndNotDropped) {
  std::vector<int> lengths(20, 599);
  lengths.insert(lengths.end(), 108, 39);  // with their BOS 600 and 40 tokens
  CalibrationSet set = load(file("short.jsonl", lines_of(lengths)), 128, 512);
  EXPECT_EQ(set.wanted_rows, 128);
  EXPECT_EQ(set.num_rows, (20 * 600 + 108 * 40) / 512);
  EXPECT_EQ(static_cast<int64_t>(set.tokens.size()), set.num_rows * 512);
}

TEST_F(CalibrationTest, F052TooLittleTextIsAnErrorThatSaysHowMuchThereIs) {
  std::string path = file("one.jsonl", "{\"text\": \"hello\"}\n");
  EXPECT_NE(error_of(path).find("6 tokens make 0 rows of 16, too few for the 4 wanted"), std::string::npos);
  EXPECT_EQ(load(file("some.jsonl", lines_of({40})), 128, 16, true).num_rows, 2);
}

TEST_F(CalibrationTest, F052BadFilesAreNamedWithTheirLine) {
  EXPECT_NE(error_of(file("empty.txt", "")).find("holds no text"), std::string::npos);
  EXPECT_NE(error_of(file("blank.txt", " \n\n")).find("holds no text"), std::string::npos);
  EXPECT_NE(error_of(file("latin1.txt", "caf\xe9")).find("latin1.txt: is not valid UTF-8"),
            std::string::npos);
  EXPECT_NE(error_of(file("key.jsonl", "{\"text\": \"a\"}\n{\"content\": \"b\"}\n"))
                .find("key.jsonl, line 2: expected"),
            std::string::npos);
  EXPECT_NE(error_of(file("cut.jsonl", "{\"text\": \"a\"")).find("cut.jsonl, line 1"), std::string::npos);
  EXPECT_NE(error_of(file("type.json", "{\"text\": 3}")).find("expected a list of texts"), std::string::npos);
  EXPECT_NE(error_of(file("data.csv", "a,b")).find("a dataset is .txt, .json, .jsonl or a folder"),
            std::string::npos);
  EXPECT_NE(error_of((folder_ / "nowhere.txt").string()).find("does not exist"), std::string::npos);
}

TEST_F(CalibrationTest, ReadsEveryKindAndFoldersOfThem) {
  file("a.txt", std::string(100, 'x'));
  file("b.json", R"(["one two", {"text": "three"}])");
  file("c.jsonl", "\"four\"\n\n{\"text\": \"five\"}\n");
  file("d.png", "not text");
  EXPECT_EQ(read_documents(folder_.string()).size(), 5u);
}

TEST_F(CalibrationTest, LongTextIsCutAtBlankLinesWithoutLoss) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "Paragraph " + std::to_string(i) + " of a long book.\n\n";
  std::vector<std::string> pieces = read_documents(file("book.txt", text));
  EXPECT_GT(pieces.size(), 4u);
  size_t total = 0;
  for (const std::string& piece : pieces) total += piece.size() + 2;
  EXPECT_NEAR(static_cast<double>(total), static_cast<double>(text.size()), 2.0);
}

TEST_F(CalibrationTest, TheSeedAloneDecidesTheRows) {
  std::string path = file("many.jsonl", lines_of(std::vector<int>(64, 63)));
  auto with_seed = [&](uint64_t seed) {
    return load_calibration(tokenizer_, {.dataset = path, .nsamples = 8, .seqlen = 64, .seed = seed}).tokens;
  };
  EXPECT_EQ(with_seed(1), with_seed(1));
  EXPECT_NE(with_seed(1), with_seed(2));
}

TEST_F(CalibrationTest, RowsAreDrawnWithoutRepetition) {
  CalibrationSet set = load(file("distinct.jsonl", lines_of(std::vector<int>(26, 63))), 26, 64);
  std::set<std::vector<int32_t>> rows;
  for (int64_t i = 0; i < set.num_rows; ++i) rows.insert({set.row(i).begin(), set.row(i).end()});
  EXPECT_EQ(static_cast<int64_t>(rows.size()), set.num_rows);
}

TEST_F(CalibrationTest, TheBuiltInTextIsLongEnough) {
  EXPECT_GE(builtin_calibration_text().size(), 300'000u);
  EXPECT_EQ(load("", 128, 2048).num_rows, 128);
}

}  // namespace
}  // namespace quaver::quantize
