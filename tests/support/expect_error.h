#pragma once

#include <gmock/gmock.h>

#include <string>
#include <type_traits>

#include "core/error.h"

namespace brigade {

/// An Error's message without the place of the check at its end, " (core/ops.cpp:41)".
inline std::string without_place(const std::string& message) {
  const std::size_t place = message.rfind(" (");
  const bool has_place =
      place != std::string::npos && message.back() == ')' && message.find_last_of(':') > place;
  return has_place ? message.substr(0, place) : message;
}

}  // namespace brigade

/// The statement throws an Error (or a class derived from it) with exactly this message, apart from
/// the place.
#define EXPECT_ERROR(statement, message) EXPECT_ERROR_OF(::brigade::Error, statement, message)
#define EXPECT_ERROR_OF(type, statement, message)                                     \
  EXPECT_THAT([&] { statement; }, ::testing::ThrowsMessage<type>(::testing::ResultOf( \
                                      &::brigade::without_place, ::testing::StrEq(message))))
/// The same where the message begins with a path of this run.
#define EXPECT_ERROR_WITH(statement, part) \
  EXPECT_THAT([&] { statement; },          \
              ::testing::ThrowsMessage<::brigade::Error>(::testing::HasSubstr(part)))
