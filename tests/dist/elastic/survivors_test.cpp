// Ranks are threads here: one that returns has closed its connections, as a killed process has.
#include "dist/elastic/survivors.h"

#include <gmock/gmock.h>

#include <latch>

#include "core/error.h"
#include "dist/comm/gather.h"
#include "dist/sockets/socket_mesh.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Members = std::vector<int>;

/// The ranks go on as `left`, and each is where it should be among them.
void expect_to_go_on(Survivors& survivors, int rank, const Members& left) {
  survivors.agree();
  EXPECT_EQ(survivors.members(), left);
  const auto comm = survivors.connect();
  EXPECT_EQ(all_gather_values(*comm, rank), left);
}

TEST(Survivors, AreAllTheRanksAtFirst) {
  test::thread_world(3, [](Communicator& everyone) {
    const Survivors survivors(everyone);
    EXPECT_THAT(survivors.members(), ElementsAre(0, 1, 2));
    const auto comm = survivors.connect();
    EXPECT_THAT(all_gather_values(*comm, everyone.rank()), ElementsAre(0, 1, 2));
  });
}

TEST(Survivors, GoOnWithoutARankThatIsGone) {
  for (const int gone : {0, 1, 2, 3}) {
    test::thread_world(4, [gone](Communicator& everyone) {
      Survivors survivors(everyone);
      const auto comm = survivors.connect();
      comm->barrier();
      if (everyone.rank() == gone) {
        return;
      }
      Members left{0, 1, 2, 3};
      left.erase(left.begin() + gone);
      expect_to_go_on(survivors, everyone.rank(), left);
    });
  }
}

TEST(Survivors, GoOnAgainAndAgainUntilOneIsLeft) {
  test::thread_world(4, [](Communicator& everyone) {
    Survivors survivors(everyone);
    Members left{0, 1, 2, 3};
    for (const int gone : {2, 0, 3}) {
      if (everyone.rank() == gone) {
        return;
      }
      std::erase(left, gone);
      expect_to_go_on(survivors, everyone.rank(), left);
    }
  });
}

TEST(Survivors, NoticeAtDifferentTimesThatTwoAreGone) {
  test::thread_world(5, [](Communicator& everyone) {
    Survivors survivors(everyone);
    if (everyone.rank() == 1 || everyone.rank() == 3) {
      return;
    }
    const Members left{0, 2, 4};
    for (survivors.agree(); survivors.members() != left; survivors.agree()) {
    }
    const auto comm = survivors.connect();
    EXPECT_EQ(all_gather_values(*comm, everyone.rank()), left);
  });
}

TEST(Survivors, GoOnWithoutARankThatOneOfThemGivesUp) {
  test::thread_world(3, [](Communicator& everyone) {
    Survivors survivors(everyone);
    if (everyone.rank() == 1) {
      EXPECT_THAT([&] { survivors.agree(); },
                  ThrowsMessage<Error>(HasSubstr("the other ranks go on without this one")));
      return;
    }
    if (everyone.rank() == 2) {
      survivors.give_up(std::vector{1});
    }
    expect_to_go_on(survivors, everyone.rank(), {0, 2});
  });
}

TEST(Survivors, EndWhereTheyMightBeACutOffMinority) {
  std::latch over(1);
  test::thread_world(3, [&](Communicator& everyone) {
    Survivors survivors(everyone);
    if (everyone.rank() != 2) {
      over.wait();  // alive, and does not answer
      return;
    }
    survivors.give_up(std::vector{0, 1});
    EXPECT_THAT([&] { survivors.agree(); }, ThrowsMessage<Error>(HasSubstr("1 of 3 ranks are left, "
                                                                           "and the network may")));
    over.count_down();
  });
}

TEST(Survivors, EndWithARankThatFails) {
  EXPECT_THAT(
      [] {
        test::thread_world(2, [](Communicator& everyone) {
          Survivors survivors(everyone);
          if (everyone.rank() == 1) {
            EXPECT_THAT([&] { survivors.agree(); },
                        ThrowsMessage<Error>(HasSubstr("rank 0 has ended the job")));
            return;
          }
          throw Error("the loss is not finite");
        });
      },
      ThrowsMessage<Error>(HasSubstr("the loss is not finite")));
}

TEST(Survivors, DoNotShrinkWhereNobodyIsLost) {
  test::thread_world(2, [](Communicator& everyone) {
    Survivors survivors(everyone);
    EXPECT_THAT([&] { survivors.agree(); },
                ThrowsMessage<Error>(HasSubstr("but all ranks are there")));
    everyone.barrier();
  });
}

}  // namespace
}  // namespace brigade::dist
