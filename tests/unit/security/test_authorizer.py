"""The authorizer interface: loading one by name, and the guard that keeps it from failing open."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from proxy.metadata.acl import Operation, ResourceType
from proxy.metadata.image import MetadataImage
from proxy.security.authorizer import (
    Action,
    AllowAll,
    Authorizer,
    Decision,
    GuardedAuthorizer,
    RequestContext,
    load_authorizer,
)
from proxy.security.principal import ANONYMOUS, Principal
from proxy.security.standard import StandardAuthorizer

CONTEXT = RequestContext(ANONYMOUS, "10.0.0.1", "PLAINTEXT", None, image=MetadataImage.EMPTY)
READ = Action(Operation.READ, ResourceType.TOPIC, "orders")
FAILED = Decision(False, "authorizer.error")


class Broken(Authorizer):
    """Raises what it is told to, or answers too little."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.settings: list[Mapping[str, str]] = []

    def configure(self, settings: Mapping[str, str]) -> None:
        self.settings.append(settings)

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        if self.error is not None:
            raise self.error
        return [Decision(True, "acl")] * (len(actions) - 1)

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        raise self.error or RuntimeError("nothing to say")


def guarded_by_settings(authorizer: Authorizer) -> GuardedAuthorizer:
    guarded = GuardedAuthorizer(authorizer)
    guarded.configure({})
    return guarded


@pytest.mark.spec("A1")
def test_the_named_class_is_made_and_configured_before_it_is_asked() -> None:
    loaded = load_authorizer("proxy.security.standard.StandardAuthorizer", {"super.users": "User:ANONYMOUS"})

    assert loaded.authorize(CONTEXT, [READ]) == [Decision(True, "super.users")]


@pytest.mark.spec("A1")
def test_an_authorizer_of_others_is_configured_once_with_the_settings() -> None:
    settings = {"some.key": "value"}

    loaded = load_authorizer(f"{__name__}.Broken", settings)

    assert isinstance(loaded, GuardedAuthorizer)
    assert isinstance(loaded.authorizer, Broken)
    assert loaded.authorizer.settings == [settings]


@pytest.mark.spec("A1")
@pytest.mark.parametrize(
    "path",
    [
        "StandardAuthorizer",
        "proxy.security.standard.Missing",
        "proxy.security.missing.StandardAuthorizer",
        "proxy.security.principal.Principal",
        "proxy.metadata.image.MetadataImage",
        "proxy.security.standard.ALLOWING",
    ],
)
def test_what_cannot_be_loaded_or_is_no_authorizer_is_refused_by_its_key(path: str) -> None:
    with pytest.raises(ValueError, match=rf"authorizer\.class\.name: .*{path}"):
        load_authorizer(path, {})


@pytest.mark.spec("A1")
def test_an_authorizer_that_refuses_its_settings_is_refused_by_the_key_that_names_it() -> None:
    with pytest.raises(
        ValueError, match=r"authorizer\.class\.name: .*Choosy' rejects its settings: door: shut"
    ):
        load_authorizer(f"{__name__}.Choosy", {})


class Choosy(Broken):
    """Cannot be configured; not with a ValueError, as it should be."""

    def configure(self, settings: Mapping[str, str]) -> None:
        raise RuntimeError("door: shut")


class Unmakeable(Broken):
    def __init__(self) -> None:
        raise OSError("no room")


@pytest.mark.spec("A1")
def test_an_authorizer_that_cannot_be_made_is_refused_by_its_key() -> None:
    with pytest.raises(ValueError, match=r"authorizer\.class\.name: cannot load .*Unmakeable': .*no room"):
        load_authorizer(f"{__name__}.Unmakeable", {})


@pytest.mark.spec("A2")
def test_left_empty_on_purpose_everything_is_allowed_and_says_so() -> None:
    loaded = load_authorizer("", {})

    assert isinstance(loaded, AllowAll)
    assert loaded.authorize(CONTEXT, [READ, READ]) == [Decision(True, "no.authorizer")] * 2
    assert loaded.authorize_by_resource_type(CONTEXT, Operation.WRITE, ResourceType.TOPIC).allowed


@pytest.mark.spec("A1")
@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyError("x"), ValueError("y"), RecursionError()])
def test_an_error_in_the_authorizer_denies_and_is_counted(error: Exception) -> None:
    guarded = guarded_by_settings(Broken(error))

    decisions = guarded.authorize(CONTEXT, [READ, READ])
    by_type = guarded.authorize_by_resource_type(CONTEXT, Operation.WRITE, ResourceType.TOPIC)

    assert (decisions, by_type) == ([FAILED, FAILED], FAILED)
    assert guarded.error_count == 2
    assert str(guarded.last_error).startswith("Traceback")
    assert type(error).__name__ in str(guarded.last_error)


@pytest.mark.spec("A1")
def test_an_answer_of_the_wrong_length_denies_everything() -> None:
    guarded = guarded_by_settings(Broken())

    assert guarded.authorize(CONTEXT, [READ, READ]) == [FAILED, FAILED]
    assert str(guarded.last_error).startswith("for 2 actions: [Decision(allowed=True")


class Careless(Broken):
    """Answers with what is no decision."""

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[Decision]:
        return [True for _ in actions]  # type: ignore[misc]

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        return None  # type: ignore[return-value]


@pytest.mark.spec("A1")
def test_an_answer_that_is_no_decision_is_a_denial() -> None:
    guarded = guarded_by_settings(Careless())

    decisions = guarded.authorize(CONTEXT, [READ])
    by_type = guarded.authorize_by_resource_type(CONTEXT, Operation.WRITE, ResourceType.TOPIC)

    assert (decisions, by_type, guarded.error_count) == ([FAILED], FAILED, 2)


@pytest.mark.spec("A1")
def test_an_authorizer_that_was_not_configured_denies() -> None:
    guarded = GuardedAuthorizer(AllowAll())

    assert guarded.authorize(CONTEXT, [READ]) == [FAILED]
    assert guarded.authorize_by_resource_type(CONTEXT, Operation.WRITE, ResourceType.TOPIC) == FAILED
    assert (guarded.acl_count(MetadataImage.EMPTY), guarded.error_count) == (-1, 3)
    assert "called before it was configured" in str(guarded.last_error)


@pytest.mark.spec("A1")
def test_an_authorizer_is_configured_only_once() -> None:
    guarded = guarded_by_settings(AllowAll())

    with pytest.raises(RuntimeError, match="once"):
        guarded.configure({})


@pytest.mark.spec("A1")
def test_a_guard_passes_on_what_the_authorizer_decides() -> None:
    standard = StandardAuthorizer()
    guarded = GuardedAuthorizer(standard)
    guarded.configure({"super.users": "User:ANONYMOUS"})

    assert guarded.authorize(CONTEXT, [READ]) == standard.authorize(CONTEXT, [READ])
    assert guarded.authorize_by_resource_type(CONTEXT, Operation.READ, ResourceType.TOPIC).allowed
    assert guarded.error_count == 0


@pytest.mark.spec("S11")
def test_an_authorizer_that_does_not_count_its_acls_says_minus_one() -> None:
    assert Broken().acl_count(MetadataImage.EMPTY) == -1
    assert AllowAll().acl_count(MetadataImage.EMPTY) == -1
    assert guarded_by_settings(Broken()).acl_count(MetadataImage.EMPTY) == -1
    assert guarded_by_settings(StandardAuthorizer()).acl_count(MetadataImage.EMPTY) == 0


class Miscounting(Broken):
    def acl_count(self, image: MetadataImage) -> int:
        raise RuntimeError("cannot count")


@pytest.mark.spec("A1", "S11")
def test_an_error_in_counting_acls_is_counted_and_not_known_as_a_number() -> None:
    guarded = guarded_by_settings(Miscounting())

    assert (guarded.acl_count(MetadataImage.EMPTY), guarded.error_count) == (-1, 1)


@pytest.mark.spec("A1", "A3", "E4")
def test_an_authorizer_of_others_can_refuse_what_a_proxy_forwards() -> None:
    loaded = load_authorizer(
        "tests.support.office_hours.Closing",
        {
            "office.hours": "0-24",
            "office.forwarded.by": "User:proxy-1",
            "super.users": "User:ANONYMOUS",
        },
    )

    def rule(forwarded_by: str | None) -> str:
        sender = None if forwarded_by is None else Principal("User", forwarded_by)
        return loaded.authorize(replace(CONTEXT, forwarding_principal=sender), [READ])[0].rule

    assert [rule(None), rule("proxy-1"), rule("proxy-2")] == [
        "super.users",
        "super.users",
        "office.not.by.this.proxy",
    ]
