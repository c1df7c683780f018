"""The document as an HTML page, with the template parts and styles of the report. Needs no Spark."""

from spark_audit.least_privilege.result import KINDS, LeastPrivilegeDocument
from spark_audit.report.page import environment

LISTED = 500
"""The page lists at most this many rows of a kind. least-privilege.json has all of them."""
TITLES = {
    "unused-grant": ("Unused grants", "ALLOW ACLs that no recorded request needed."),
    "covered-grant": ("Covered grants", "ALLOW ACLs of which each use was allowed by a group's ACL too."),
    "wide-grant": ("Wide grants", "ALLOW ACLs that allow more than what they were used for."),
    "no-grant": ("Principals without a grant", "Principals that try, of which no request is allowed."),
    "no-login": ("Users without a login", "SCRAM users of which the period has no record."),
    "unreached-quota": ("Quotas that were not approached", "Their highest use is below half of the limit."),
}


def render(found: LeastPrivilegeDocument) -> str:
    """Return the page as text."""
    by_kind = {kind: [row for row in found["rows"] if row["kind"] == kind] for kind in KINDS}
    template = environment().get_template("least-privilege.html.j2")
    return template.render(found=found, by_kind=by_kind, titles=TITLES, listed=LISTED)
