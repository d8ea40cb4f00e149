// delaybox DELAY LOSS PORT...: a learning switch over packet sockets that holds every frame for DELAY
// (2ms, 500us, 1s; a bare number is milliseconds) before it sends the frame on.
//
// It stands where a bridge would, and gives links a latency on kernels that lack netem. Frames of
// all ports share one queue: the delay is the same for each, so the queue is ordered by departure
// time.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  kMaxPorts = 254,    // as many as netlab.sh has addresses for
  kMaxFrame = 70000,  // segmentation offload hands over frames of up to 64 KiB
  kBurst = 64,        // frames read from one port before the others get their turn
  kSocketBuffer = 16 << 20,
  kVnetHeader = sizeof(struct virtio_net_hdr),
};

typedef struct Frame {
  struct Frame* next;
  long due_ns;
  int length;
  int from;
  unsigned char bytes[];  // virtio_net_hdr, then the Ethernet frame
} Frame;

typedef struct Port {
  unsigned char mac[ETH_ALEN];  // the station heard on this port
  int known;
} Port;

static struct pollfd sockets[kMaxPorts];
static Port ports[kMaxPorts];
static int port_count;
static Frame* head;
static Frame** tail = &head;

static long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

// Returns -1 for what is not a delay. The number is digits alone: strtod takes -1, inf and 0x10, too.
static long parse_delay_ns(const char* text) {
  char* unit;
  double scale = 1e6;
  const double value = strtod(text, &unit);
  if (unit == text || unit != text + strspn(text, "0123456789.")) return -1;
  if (!strcmp(unit, "us")) {
    scale = 1e3;
  } else if (!strcmp(unit, "s")) {
    scale = 1e9;
  } else if (*unit && strcmp(unit, "ms") != 0) {
    return -1;
  }
  return value * scale < 1e18 ? (long)(value * scale) : -1;  // 30 years; a long ends at 290
}

// A raw socket on one interface that sees every frame arriving there, unsegmented
// (PACKET_VNET_HDR), and none of those we send ourselves. Returns -1 on failure.
static int open_port(const char* name) {
  const int one = 1, buffer = kSocketBuffer;
  const struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                      .sll_protocol = htons(ETH_P_ALL),
                                      .sll_ifindex = (int)if_nametoindex(name)};
  const struct packet_mreq promiscuous = {.mr_ifindex = address.sll_ifindex,
                                          .mr_type = PACKET_MR_PROMISC};
  const int s = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
  if (s < 0 || setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) ||
      setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) ||
      setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) ||
      setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer) ||
      bind(s, (const struct sockaddr*)&address, sizeof address) ||
      setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous)) {
    return -1;
  }
  return s;
}

static void receive(int from, long delay_ns, long loss) {
  static unsigned char buffer[kMaxFrame];
  for (int k = 0; k < kBurst; k++) {
    const ssize_t length = read(sockets[from].fd, buffer, kMaxFrame);
    if (length <= kVnetHeader + ETH_HLEN) return;
    memcpy(ports[from].mac, buffer + kVnetHeader + ETH_ALEN, ETH_ALEN);
    ports[from].known = 1;
    if (random() % 100 < loss) continue;
    Frame* frame = malloc(sizeof *frame + (size_t)length);
    if (!frame) return;  // a switch without memory drops frames; TCP sends them again
    *frame = (Frame){.due_ns = now_ns() + delay_ns, .length = (int)length, .from = from};
    memcpy(frame->bytes, buffer, (size_t)length);
    *tail = frame;
    tail = &frame->next;
  }
}

// To the port where the destination was heard; to all others while nobody knows it, as a switch
// does.
static void forward(const Frame* frame) {
  int target = -1;
  for (int i = 0; i < port_count; i++) {
    if (ports[i].known && i != frame->from &&
        !memcmp(ports[i].mac, frame->bytes + kVnetHeader, ETH_ALEN)) {
      target = i;
    }
  }
  for (int i = 0; i < port_count; i++) {
    if (i == frame->from || (target >= 0 && i != target)) continue;
    if (write(sockets[i].fd, frame->bytes, (size_t)frame->length) < 0 && errno != EAGAIN &&
        errno != ENOBUFS) {
      perror("delaybox: write");
    }
  }
}

static void forward_due(void) {
  const long now = now_ns();
  while (head && head->due_ns <= now) {
    Frame* frame = head;
    forward(frame);
    head = frame->next;
    if (!head) tail = &head;
    free(frame);
  }
}

// Sleeps until a frame arrives or the oldest one is due.
static int wait_for_work(void) {
  if (!head) return ppoll(sockets, (nfds_t)port_count, NULL, NULL);
  const long rest = head->due_ns - now_ns();
  const long left = rest > 0 ? rest : 0;
  const struct timespec timeout = {.tv_sec = left / 1000000000L, .tv_nsec = left % 1000000000L};
  return ppoll(sockets, (nfds_t)port_count, &timeout, NULL);
}

int main(int argc, char** argv) {
  if (argc < 4 || argc - 3 > kMaxPorts) {
    fprintf(stderr, "usage: delaybox DELAY LOSS PORT... (LOSS in percent, at most %d ports)\n",
            kMaxPorts);
    return 2;
  }
  const long delay_ns = parse_delay_ns(argv[1]);
  if (delay_ns < 0) {
    fprintf(stderr, "delaybox: expected a delay like 2ms, 500us or 1s, got '%s'\n", argv[1]);
    return 2;
  }
  const long loss = strtol(argv[2], NULL, 10);
  port_count = argc - 3;
  prctl(PR_SET_TIMERSLACK, 1);  // wake up when asked, not up to 50 us later
  for (int i = 0; i < port_count; i++) {
    sockets[i] = (struct pollfd){.fd = open_port(argv[i + 3]), .events = POLLIN};
    if (sockets[i].fd < 0) {
      perror(argv[i + 3]);
      return 1;
    }
  }
  for (;;) {
    forward_due();
    if (wait_for_work() <= 0) continue;
    for (int i = 0; i < port_count; i++) {
      if (sockets[i].revents & POLLIN) receive(i, delay_ns, loss);
    }
  }
}
