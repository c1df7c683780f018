"""AlterUserScramCredentials (KIP-554): deletions and upsertions -> SCRAM credential records.

The client sends the salted password, never the password. The log stores the two keys derived from it (RFC
5802), as Kafka does: it checks neither the salt nor the length of the salted password, so a client that sends
others than its mechanism computes has stored a credential that no login matches. controller.py calls this
once ALTER on the cluster is granted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from forwarding.controller.acls import end_fault
from forwarding.controller.api import (
    MAX_RECORDS_PER_REQUEST,
    ControllerApi,
    ControllerOutcome,
    DuplicateForward,
    over_limit,
)
from proxy.metadata.acl import end_of_tags, tags_of_end
from proxy.metadata.image import MetadataImage
from proxy.metadata.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_from_salted_password,
)
from proxy.wire import types
from proxy.wire.api_keys import ApiKey
from proxy.wire.error_codes import ErrorCode
from proxy.wire.message import Message

Deletion: TypeAlias = "types.AlterUserScramCredentialsRequest.ScramCredentialDeletion"
Upsertion: TypeAlias = "types.AlterUserScramCredentialsRequest.ScramCredentialUpsertion"
Fault = tuple[ErrorCode, str | None]
NO_FAULT: Fault = (ErrorCode.NONE, None)
TWICE: Fault = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)
"""Also if the two name different mechanisms: Kafka's controller returns one result for each user."""
NO_KEY: Fault = (ErrorCode.UNKNOWN_SERVER_ERROR, None)
"""For an empty salted password: HMAC in Java rejects an empty key, so Kafka's controller fails."""


def alter_user_scram_credentials(
    request: types.AlterUserScramCredentialsRequest, image: MetadataImage, now_ms: int
) -> ControllerOutcome:
    """Alter credentials: one result for each user, in order, with the first of the user's faults."""
    alterations: list[Deletion | Upsertion] = [*request.deletions, *request.upsertions]
    names = dict.fromkeys(alteration.name for alteration in alterations)
    if len(names) > MAX_RECORDS_PER_REQUEST:
        return over_limit(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request, f"{len(names)} users in one request")
    accepted: dict[str, Deletion | Upsertion] = {}
    faults: dict[str, Fault] = {}
    for alteration in alterations:
        name = alteration.name
        fault = faults.get(name) or (TWICE if name in accepted else _fault(alteration, image, now_ms))
        if fault is None:
            accepted[name] = alteration
        else:
            accepted.pop(name, None)
            faults[name] = fault
    # Only now, as in Kafka: a user that is altered twice has that fault.
    faults |= {name: NO_KEY for name, alteration in accepted.items() if _makes_no_key(alteration)}
    stored = [alteration for name, alteration in accepted.items() if name not in faults]
    records = tuple(_record(alteration) for alteration in stored)
    response = types.AlterUserScramCredentialsResponse
    outcomes = ((name, *faults.get(name, NO_FAULT)) for name in names)
    results = [
        response.AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
        for user, code, message in outcomes
    ]
    return ControllerOutcome(records, response(results=results))


def _makes_no_key(alteration: Deletion | Upsertion) -> bool:
    if isinstance(alteration, types.AlterUserScramCredentialsRequest.ScramCredentialDeletion):
        return False
    return not alteration.salted_password


def _fault(alteration: Deletion | Upsertion, image: MetadataImage, now_ms: int) -> Fault | None:
    if not alteration.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    mechanism = ScramMechanism(alteration.mechanism)
    if mechanism is ScramMechanism.UNKNOWN:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(alteration, types.AlterUserScramCredentialsRequest.ScramCredentialDeletion):
        if image.scram.credential(mechanism, alteration.name) is None:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL
    if alteration.iterations < MIN_ITERATIONS:
        return code, f"Too few iterations: {alteration.iterations}, at least {MIN_ITERATIONS}"
    if alteration.iterations > MAX_ITERATIONS:
        return code, f"Too many iterations: {alteration.iterations}, at most {MAX_ITERATIONS}"
    end = end_fault("credential", alteration.unknown_tags, now_ms)
    return None if end is None else (code, end)


def _record(alteration: Deletion | Upsertion) -> Message:
    if isinstance(alteration, types.AlterUserScramCredentialsRequest.ScramCredentialDeletion):
        return types.RemoveUserScramCredentialRecord(name=alteration.name, mechanism=alteration.mechanism)
    mechanism = ScramMechanism(alteration.mechanism)
    credential = credential_from_salted_password(
        mechanism, bytes(alteration.salt), bytes(alteration.salted_password), alteration.iterations
    )
    until_ms = end_of_tags(alteration.unknown_tags)
    return credential_record(mechanism, alteration.name, replace(credential, until_ms=until_ms))


def credential_record(
    mechanism: ScramMechanism, user: str, credential: ScramCredential
) -> types.UserScramCredentialRecord:
    """Return the record that sets a credential."""
    return types.UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
        unknown_tags=tags_of_end(credential.until_ms),
    )


def _altered_by_duplicate(
    duplicate: DuplicateForward[types.AlterUserScramCredentialsResponse],
) -> types.AlterUserScramCredentialsResponse:
    """Report success for the users that the first attempt altered: a deleted credential is not found now."""
    credentials = (types.UserScramCredentialRecord, types.RemoveUserScramCredentialRecord)
    names = {record.name for record in duplicate.records if isinstance(record, credentials)}
    for result in duplicate.response.results:
        if result.user in names:
            result.error_code, result.error_message = ErrorCode.NONE, None
    return duplicate.response


CONTROLLER_APIS = (
    ControllerApi(
        key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        decide=lambda inputs: alter_user_scram_credentials(inputs.request, inputs.image, inputs.now_ms),
        writes=("UserScramCredentialRecord", "RemoveUserScramCredentialRecord"),
        duplicate_response=_altered_by_duplicate,
    ),
)
