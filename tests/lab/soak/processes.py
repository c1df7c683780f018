"""The proxies and the controller of a soak, as tests.lab.chaos.watched looks after them."""

from tests.lab.chaos.watched import Watch, Watched
from tests.lab.cluster.process import ChildProcess
from tests.lab.soak.place import Place, Side

READ_EVERY_S = 5


class Processes:
    """All of them under watch."""

    def __init__(self, place: Place) -> None:
        stack = place.stack
        controller: ChildProcess = stack.controller
        self.controller = Watched(
            "controller-1", stack.wiring.controller_http, controller, stack.start_controller
        )
        self.proxies = [_proxy(side) for side in place.sides]
        self.watch = Watch([*self.proxies, self.controller], READ_EVERY_S)


def _proxy(side: Side) -> Watched:
    node = side.node
    return Watched(node.wiring.proxy.name, node.wiring.proxy_http, node.proxy, node.start_proxy)
