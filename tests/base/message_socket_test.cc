// Messages between processes: whole, in order, and news of the other side's end.
#include "base/message_socket.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"

namespace quaver {
namespace {

using std::chrono::seconds;

struct Pair {
  MessageListener listener{true};
  MessageSocket near = MessageSocket::connect("127.0.0.1", listener.port(), seconds(5));
  MessageSocket far = listener.accept(seconds(5));
};

TEST(MessageSocket, BringsMessagesWholeAndInOrder) {
  Pair pair;
  const std::string large(3'000'000, 'x');
  std::thread sender([&] {
    pair.near.send("one");
    pair.near.send("");
    pair.near.send(large);
  });
  EXPECT_EQ(pair.far.receive(), "one");
  EXPECT_EQ(pair.far.receive(), "");
  EXPECT_EQ(pair.far.receive(), large);
  sender.join();
}

TEST(MessageSocket, TellsThatTheOtherSideHasGone) {
  Pair pair;
  pair.near.send("last words");
  { const MessageSocket gone = std::move(pair.near); }
  EXPECT_EQ(pair.far.receive(), "last words");
  EXPECT_EQ(pair.far.receive(), std::nullopt);
  EXPECT_THROW(for (int i = 0; i < 100; ++i) pair.far.send(std::string(100'000, 'x')), Error);
}

TEST(MessageSocket, ReceivesNothingFromAStrangerWhoLies) {
  Pair pair;
  const std::string length_of_all = "\xff\xff\xff\xff\xff\xff\xff\x7f";
  ASSERT_EQ(::write(pair.near.fd(), length_of_all.data(), 8), 8);
  EXPECT_EQ(pair.far.receive(), std::nullopt);
}

TEST(MessageSocket, AHangUpEndsWhoWaits) {
  Pair pair;
  std::thread waiter([&] { EXPECT_EQ(pair.far.receive(), std::nullopt); });
  pair.far.hang_up();
  waiter.join();
  EXPECT_EQ(pair.near.receive(), std::nullopt);
}

TEST(MessageSocket, PatienceHasAnEnd) {
  const MessageListener listener(true);
  EXPECT_THROW(listener.accept(seconds(0)), Error);
  uint16_t free_port = 0;
  { free_port = MessageListener(true).port(); }
  EXPECT_THROW(MessageSocket::connect("127.0.0.1", free_port, seconds(0)), Error);
  EXPECT_THROW(MessageSocket::connect("no-such-host.invalid", 1, seconds(0)), Error);
}

}  // namespace
}  // namespace quaver
