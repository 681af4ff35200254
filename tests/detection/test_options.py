"""Wrong options and missing libraries are told of when a detector is made."""

import subprocess
import sys

import pytest

from procession.detection import DEFAULT_REGIONS, LocalDetector
from procession.errors import ConfigurationError, InputError, OptionError
from procession.processors import PIIDetector


def test_unknown_types_are_refused_with_the_nearest_name() -> None:
    """B-014."""
    with pytest.raises(InputError, match=r"types.*'emial'.*did you mean 'email'"):
        LocalDetector(["emial"])
    with pytest.raises(InputError, match=r"types.*'name' locally"):
        LocalDetector(["email", "name"])
    with pytest.raises(InputError, match=r"types must be a list"):
        LocalDetector("email")


def test_unknown_regions_are_refused() -> None:
    """B-014."""
    with pytest.raises(InputError, match=r"regions.*'Germany'"):
        LocalDetector(["phone"], regions=["Germany"])
    with pytest.raises(InputError, match=r"regions.*XX"):
        LocalDetector(["phone"], regions=["XX"])
    assert {"US", "CN", "IN"} <= set(DEFAULT_REGIONS)


@pytest.mark.parametrize(
    ("type_id", "module", "name"),
    [
        ("credit-card", "stdnum.luhn", "stdnum"),
        ("iban", "stdnum.iban", "stdnum"),
        ("br-cpf", "stdnum.br.cpf", "stdnum"),
        ("phone", "phonenumbers", "phonenumbers"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    type_id: str, module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the types that need it need it."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"{name}: pip install 'procession\[guards\]'"):
        LocalDetector([type_id])
    assert LocalDetector(["email", "api-key", "url", "uuid", "ip-address", "private-key"])


def test_libraries_are_loaded_when_a_type_needs_them() -> None:
    """Importing detection costs next to nothing."""
    code = (
        "import sys\n"
        "from procession.detection import LocalDetector\n"
        "LocalDetector(['email', 'uk-nino'])\n"
        "print([name for name in ('stdnum', 'phonenumbers', 're2') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("code", "meant"), [("UK", "GB"), ("uk", "GB"), ("gb", "GB"), ("USA", "US"), ("JA", "JP")]
)
def test_a_country_by_another_code(code: str, meant: str) -> None:
    """B-014: of whichever part has the option, for others pass it on."""
    with pytest.raises(OptionError, match=rf"^regions: .*did you mean '{meant}'"):
        LocalDetector(["phone"], regions=[code])
    with pytest.raises(OptionError, match=rf"^regions: .*did you mean '{meant}'"):
        PIIDetector(regions=[code])


def test_a_country_that_nobody_knows() -> None:
    with pytest.raises(OptionError, match=r"^regions: .*'QQ'$"):
        LocalDetector(["phone"], regions=["QQ"])
