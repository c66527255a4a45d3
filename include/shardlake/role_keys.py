"""What a pipeline's entry may say of a role to assume."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

MAX_SESSION_NAME = 64
"""Most characters of `RoleSessionName` (AssumeRole, API reference)."""


class RoleKeys(BaseModel):
    """A role, and what its trust policy asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    role_arn: str | None = Field(
        None,
        pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,576}$",
        description="a role's ARN, or null",
    )
    external_id: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_+=,.@:/-]{2,1224}$",
        description="what the role's trust policy asks for, 2 to 1224 letters, digits and +=,.@:/_-, or null",
    )

    @model_validator(mode="after")
    def _external_id_of_a_role(self) -> RoleKeys:
        if self.external_id and not self.role_arn:
            raise ValueError("an external id without a role")
        return self


class StreamRoleKeys(RoleKeys):
    """The role in which a stream is read."""

    session_name: str | None = Field(
        None,
        pattern=rf"^[A-Za-z0-9_+=,.@-]{{2,{MAX_SESSION_NAME}}}$",
        description="what the logs of the role's account call us, 2 to 64 letters, digits and +=,.@_-, or null",
    )

    @model_validator(mode="after")
    def _session_name_of_a_role(self) -> StreamRoleKeys:
        if self.session_name and not self.role_arn:
            raise ValueError("a session's name without a role")
        return self
