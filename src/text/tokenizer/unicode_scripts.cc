// Runs of one script, found with PCRE2's script property.
#include "text/tokenizer/unicode_scripts.h"

#include <string>

namespace quaver::text {
namespace {

// The scripts of Unicode 9, which is what the `tokenizers` library knows.
constexpr std::string_view kScripts[] = {"Inherited",
                                         "Adlam",
                                         "Ahom",
                                         "Anatolian_Hieroglyphs",
                                         "Arabic",
                                         "Armenian",
                                         "Avestan",
                                         "Balinese",
                                         "Bamum",
                                         "Bassa_Vah",
                                         "Batak",
                                         "Bengali",
                                         "Bhaiksuki",
                                         "Bopomofo",
                                         "Brahmi",
                                         "Braille",
                                         "Buginese",
                                         "Buhid",
                                         "Canadian_Aboriginal",
                                         "Carian",
                                         "Caucasian_Albanian",
                                         "Chakma",
                                         "Cham",
                                         "Cherokee",
                                         "Coptic",
                                         "Cuneiform",
                                         "Cypriot",
                                         "Cyrillic",
                                         "Deseret",
                                         "Devanagari",
                                         "Duployan",
                                         "Egyptian_Hieroglyphs",
                                         "Elbasan",
                                         "Ethiopic",
                                         "Georgian",
                                         "Glagolitic",
                                         "Gothic",
                                         "Grantha",
                                         "Greek",
                                         "Gujarati",
                                         "Gurmukhi",
                                         "Hangul",
                                         "Hanunoo",
                                         "Hatran",
                                         "Hebrew",
                                         "Imperial_Aramaic",
                                         "Inscriptional_Pahlavi",
                                         "Inscriptional_Parthian",
                                         "Javanese",
                                         "Kaithi",
                                         "Kannada",
                                         "Kayah_Li",
                                         "Kharoshthi",
                                         "Khmer",
                                         "Khojki",
                                         "Khudawadi",
                                         "Lao",
                                         "Latin",
                                         "Lepcha",
                                         "Limbu",
                                         "Linear_A",
                                         "Linear_B",
                                         "Lisu",
                                         "Lycian",
                                         "Lydian",
                                         "Mahajani",
                                         "Malayalam",
                                         "Mandaic",
                                         "Manichaean",
                                         "Marchen",
                                         "Meetei_Mayek",
                                         "Mende_Kikakui",
                                         "Meroitic_Cursive",
                                         "Meroitic_Hieroglyphs",
                                         "Miao",
                                         "Modi",
                                         "Mongolian",
                                         "Mro",
                                         "Multani",
                                         "Myanmar",
                                         "Nabataean",
                                         "New_Tai_Lue",
                                         "Newa",
                                         "Nko",
                                         "Ogham",
                                         "Ol_Chiki",
                                         "Old_Hungarian",
                                         "Old_Italic",
                                         "Old_North_Arabian",
                                         "Old_Permic",
                                         "Old_Persian",
                                         "Old_South_Arabian",
                                         "Old_Turkic",
                                         "Oriya",
                                         "Osage",
                                         "Osmanya",
                                         "Pahawh_Hmong",
                                         "Palmyrene",
                                         "Pau_Cin_Hau",
                                         "Phags_Pa",
                                         "Phoenician",
                                         "Psalter_Pahlavi",
                                         "Rejang",
                                         "Runic",
                                         "Samaritan",
                                         "Saurashtra",
                                         "Sharada",
                                         "Shavian",
                                         "Siddham",
                                         "SignWriting",
                                         "Sinhala",
                                         "Sora_Sompeng",
                                         "Sundanese",
                                         "Syloti_Nagri",
                                         "Syriac",
                                         "Tagalog",
                                         "Tagbanwa",
                                         "Tai_Le",
                                         "Tai_Tham",
                                         "Tai_Viet",
                                         "Takri",
                                         "Tamil",
                                         "Tangut",
                                         "Telugu",
                                         "Thaana",
                                         "Thai",
                                         "Tibetan",
                                         "Tifinagh",
                                         "Tirhuta",
                                         "Ugaritic",
                                         "Vai",
                                         "Warang_Citi",
                                         "Yi"};

std::string run_pattern() {
  std::string pattern =
      "[\\x{30FC}\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}]+|(?:(?![ \\x{30FC}])\\p{sc:Common})+";
  for (const std::string_view script : kScripts) pattern += "|\\p{sc:" + std::string(script) + "}+";
  return pattern;
}

}  // namespace

UnicodeScripts::UnicodeScripts() : run_(Regex::compile_pcre2(run_pattern(), "the pattern of scripts")) {}

bool UnicodeScripts::same_script(std::string_view a, std::string_view b) const {
  const std::string both = std::string(a) + std::string(b);
  const auto match = run_.find(both, 0);
  return match && match->end == both.size();
}

std::vector<size_t> UnicodeScripts::run_starts(std::string_view text) const {
  std::vector<size_t> starts;
  std::string_view previous;  // a character of the last run
  run_.for_each_match(text, [&](Match run) {
    const std::string_view first = text.substr(run.begin, next_character(text, run.begin) - run.begin);
    if (previous.empty() || !same_script(previous, first)) starts.push_back(run.begin);
    previous = first;
  });
  return starts;
}

}  // namespace quaver::text
