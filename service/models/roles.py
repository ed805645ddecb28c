"""What a part of a model is for: by its key in the whole, by its type, or by the sizes that its class has."""

from service.models.known import roles
from service.models.reading import Reading

ROLES: tuple[tuple[str, str], ...] = (
    ("vision", "vision-tower"),
    ("backbone", "vision-tower"),
    ("audio", "audio-tower"),
    ("speech", "audio-tower"),
    ("code2wav", "audio-tower"),
    ("encoder", "encoder-attention"),
    ("decoder", "decoder-attention"),
    ("text", "text-attention"),
)


def role_of_part(key: str, outer: str) -> str:
    """The role of a part by its key; what has no word of its own has that of the whole."""
    for word, role in ROLES:
        if word in key:
            return role
    return outer


PICTURES, SOUND = ("image_size", "patch_size", "num_channels"), ("num_mel_bins", "conv_dim")
TEXT = ("max_position_embeddings", "relative_attention_num_buckets")


def own_role(reading: Reading, role: str) -> str:
    """What a tower is for where no key says: by the sizes that its class has."""
    fields = reading.type.fields
    if role == "text-attention" and reading.type.name in roles():
        return roles()[reading.type.name]
    whole = reading.type.parts or reading.type.rule.get("crosses")
    if role != "text-attention" or whole or any(key in fields for key in TEXT):
        return role
    if any(key in fields for key in PICTURES):
        return "vision-tower"
    return "audio-tower" if any(key in fields for key in SOUND) else role
