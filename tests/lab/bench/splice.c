// The least that anything between a client and a broker can cost: bytes moved by splice(2) in the kernel,
// without a look at them. One epoll thread; no requests, no policy, no TLS.
//
//   splice LISTEN_PORT TARGET_PORT    both on 127.0.0.1; prints "listening" when it accepts connections
//
// Each direction has a pipe. What the other side does not take stays there, and nothing more is read until it
// is gone. A half-close is passed on when the pipe is empty; any error closes both sides.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, BACKLOG = 4096, MOST = 1 << 20 };

typedef struct Pair Pair;

typedef struct {
  Pair *pair;
  int fd;
  // Of the bytes that come from here: its pipe, how many are in it, and how far the end of the stream has got.
  int out, in;
  size_t held;
  int ended, passed_on;
} Side;

struct Pair {
  Side client, broker;
  int closed;
  Pair *next_closed;
};

static int poll_fd;
static Pair *closed_pairs;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void close_side(Side *side) {
  if (side->fd >= 0) close(side->fd);
  if (side->out >= 0) close(side->out), close(side->in);
}

static void stop(Pair *pair) {
  close_side(&pair->client);
  close_side(&pair->broker);
  // Another event of this round may still name it.
  pair->closed = 1;
  pair->next_closed = closed_pairs;
  closed_pairs = pair;
}

// Moves bytes until one of the two would block. 0 if the pair has to be closed.
static int move(Side *from, Side *to) {
  for (;;) {
    if (!from->held && !from->ended) {
      ssize_t got = splice(from->fd, NULL, from->in, NULL, MOST, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
      if (got < 0) return errno == EAGAIN;
      from->ended = got == 0;
      from->held = got;
    }
    if (!from->held) {
      if (!from->passed_on && shutdown(to->fd, SHUT_WR)) return 0;
      from->passed_on = 1;
      return !to->passed_on;
    }
    ssize_t put = splice(from->out, NULL, to->fd, NULL, from->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (put < 0) return errno == EAGAIN;
    from->held -= put;
  }
}

static void watch(Side *side) {
  // Edges: both directions are tried at each event, until they would block.
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = side};
  if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, side->fd, &event)) fail("epoll_ctl");
}

static int open_side(Side *side, Pair *pair, int fd) {
  int ends[2], one = 1;
  *side = (Side){.pair = pair, .fd = fd, .out = -1, .in = -1};
  if (fd < 0 || pipe2(ends, O_NONBLOCK | O_CLOEXEC)) return 0;
  side->out = ends[0], side->in = ends[1];
  return !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void begin(int client, const struct sockaddr_in *target) {
  Pair *pair = calloc(1, sizeof(Pair));
  if (!pair) fail("calloc");
  int broker = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int opened = open_side(&pair->client, pair, client) & open_side(&pair->broker, pair, broker);
  if (!opened || (connect(broker, (const void *)target, sizeof *target) && errno != EINPROGRESS)) {
    stop(pair);
    return;
  }
  watch(&pair->client);
  watch(&pair->broker);
}

static struct sockaddr_in loopback(const char *port) {
  return (struct sockaddr_in){
      .sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int main(int count, char **words) {
  if (count != 3) return fprintf(stderr, "see the head of splice.c\n"), 2;
  signal(SIGPIPE, SIG_IGN);
  struct sockaddr_in own = loopback(words[1]), target = loopback(words[2]);
  int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (void *)&own, sizeof own) || listen(listener, BACKLOG)) fail(words[1]);
  poll_fd = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event events[EVENTS], accepting = {.events = EPOLLIN};
  if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &accepting)) fail("epoll_ctl");
  printf("listening\n");
  fflush(stdout);
  for (;;) {
    int ready = epoll_wait(poll_fd, events, EVENTS, -1);
    for (int i = 0; i < ready; i++) {
      Side *side = events[i].data.ptr;
      if (!side) {
        for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) begin(fd, &target);
        if (errno != EAGAIN && errno != ECONNABORTED) fail("accept4");
        continue;
      }
      Pair *pair = side->pair;
      if (pair->closed) continue;
      Side *other = side == &pair->client ? &pair->broker : &pair->client;
      // What can be read here goes there, and what waits for room here comes from there.
      if ((events[i].events & EPOLLERR) || !move(side, other) || !move(other, side)) stop(pair);
    }
    while (closed_pairs) {
      Pair *pair = closed_pairs;
      closed_pairs = pair->next_closed;
      free(pair);
    }
  }
}
