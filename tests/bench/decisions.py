"""What one decision of the authorizer takes with 100,000 ACLs: `python -m tests.bench.decisions`.

Decisions are remembered by each connection, so this is paid once for a client's topic, not for a request.
"""

import sys
from statistics import median
from time import process_time
from uuid import UUID

from proxy.metadata.acl import Operation, PatternType, PermissionType, ResourceType
from proxy.metadata.delta import MetadataDelta
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import Action, RequestContext
from proxy.security.principal import Principal
from proxy.security.standard import StandardAuthorizer
from proxy.wire import types

_ACLS = 100_000
_DECISIONS = 20_000
_ROUNDS = 5


def image_with_many_acls() -> MetadataImage:
    """One user's right on each topic, literal and prefixed in turns."""
    delta = MetadataDelta(MetadataImage.EMPTY)
    for number in range(_ACLS):
        delta.replay(
            types.AccessControlEntryRecord(
                id=UUID(int=number + 1).bytes,
                resource_type=ResourceType.TOPIC,
                resource_name=f"team-{number % 1000}.topic-{number}",
                pattern_type=PatternType.LITERAL if number % 2 else PatternType.PREFIXED,
                principal=f"User:user-{number % 1000}",
                host="*",
                operation=Operation.WRITE,
                permission_type=PermissionType.ALLOW,
            )
        )
    return delta.apply(_ACLS)


def decision_us(image: MetadataImage, user: str, topic: str) -> float:
    """CPU time of one decision, the median of some rounds."""
    authorizer = StandardAuthorizer()
    authorizer.configure({})
    context = RequestContext(Principal("User", user), "10.0.0.1", "SASL_SSL", "client", image=image)
    actions = [Action(Operation.WRITE, ResourceType.TOPIC, topic)]
    took = []
    for _ in range(_ROUNDS):
        since_s = process_time()
        for _ in range(_DECISIONS):
            authorizer.authorize(context, actions)
        took.append((process_time() - since_s) / _DECISIONS)
    return 1e6 * median(took)


def main() -> None:
    since_s = process_time()
    image = image_with_many_acls()
    sys.stdout.write(f"{image.acls.count} ACLs replayed in {process_time() - since_s:.2f} s of CPU\n")
    for what, user, topic in (
        ("allowed by a literal ACL", "user-1", "team-1.topic-1"),
        ("allowed by a prefixed ACL", "user-2", "team-2.topic-2.events"),
        ("denied", "user-3", "team-1.topic-1"),
    ):
        sys.stdout.write(f"{what}: {decision_us(image, user, topic):.1f} us\n")


if __name__ == "__main__":
    main()
