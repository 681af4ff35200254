# ruff: noqa: RUF001  # texts in scripts that use such signs
"""What the local detector finds, and what it leaves alone (B-129, B-136)."""

import pytest

from procession.detection import GROUPS, LOCAL_TYPES, LocalDetector

DETECTOR = LocalDetector()

FOUND = [
    ("email", "Write to <joe@example.com>, please", "joe@example.com"),
    ("email", "Mail: o'brien+list@mail.example.co.uk.", "o'brien+list@mail.example.co.uk"),
    ("email", "josé@exämple.de", "josé@exämple.de"),
    ("email", "我的邮箱是joe@example.com谢谢", "joe@example.com"),
    ("email", "john(at)example[dot]com", "john(at)example[dot]com"),
    ("url", "see https://example.com/a_(b)?x=1,2.", "https://example.com/a_(b)?x=1,2"),
    ("url", "(www.example.com/x)", "www.example.com/x"),
    ("url-credentials", "postgres://u:p4ss@db.example.com/x", "postgres://u:p4ss@db.example.com/x"),
    ("ip-address", "host 10.0.0.1, port 80", "10.0.0.1"),
    ("ip-address", "at 2001:db8::8a2e:370:7334.", "2001:db8::8a2e:370:7334"),
    ("ip-address", "地址：2001:db8::1。", "2001:db8::1"),
    ("uuid", "id=550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000"),
    ("credit-card", "pay 4111 1111 1111 1111 now", "4111 1111 1111 1111"),
    ("credit-card", "378282246310005", "378282246310005"),
    ("credit-card", "3782-822463-10005", "3782-822463-10005"),
    ("credit-card", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"),
    ("iban", "DE89 3704 0044 0532 0130 00, bitte", "DE89 3704 0044 0532 0130 00"),
    ("iban", "to GB29NWBK60161331926819.", "GB29NWBK60161331926819"),
    ("iban", "gb29nwbk60161331926819", "gb29nwbk60161331926819"),
    ("crypto-wallet", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"),
    (
        "crypto-wallet",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
    ),
    (
        "crypto-wallet",
        "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
        "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
    ),
    (
        "crypto-wallet",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    ),
    ("crypto-wallet", "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh", "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh"),
    ("crypto-wallet", "LM2WMpR1Rp6j3Sa59cMXMs1SPzj9eXpGc1", "LM2WMpR1Rp6j3Sa59cMXMs1SPzj9eXpGc1"),
    ("crypto-wallet", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
    ("phone", "ring +49 (0)30 901820 today", "+49 (0)30 901820"),
    ("phone", "0033 1 42 68 53 00", "0033 1 42 68 53 00"),
    ("phone", "Tel. 030 901820", "030 901820"),
    ("phone", "Teléfono: 612 34 82 51 44c8c551", "612 34 82 51"),
    ("phone", "call 555-1234", "555-1234"),
    ("phone", "(415) 555-2671 or so", "(415) 555-2671"),
    ("phone", "call 7163023345", "7163023345"),
    ("phone", "in order to get help: 415-555-2671", "415-555-2671"),
    ("credit-card", "GB29 4111 1111 1111 1111", "4111 1111 1111 1111"),
    ("credit-card", "order 6011000990139424", "6011000990139424"),
    ("phone", "123-456-7890", "123-456-7890"),
    ("phone", "call +1234567890 now", "+1234567890"),
    ("phone", "+1 415 555 2671 2024 times", "+1 415 555 2671"),
    ("phone", "请拨打13812345678联系", "13812345678"),
    ("phone", "010-1234-5678 입니다", "010-1234-5678"),
    ("phone", "携帯は090-1234-5678です", "090-1234-5678"),
    ("phone", "Ligue (11) 91234-5678", "(11) 91234-5678"),
    ("ssn", "SSN 123-45-6789", "123-45-6789"),
    ("ssn", "social security: 123456789", "123456789"),
    ("us-itin", "ITIN 912-87-3132", "912-87-3132"),
    ("uk-nino", "NINO AB 12 34 56 C.", "AB 12 34 56 C"),
    ("uk-nhs", "NHS 943 476 5919", "943 476 5919"),
    ("fr-nir", "2 94 03 75 120 005 91", "2 94 03 75 120 005 91"),
    ("de-idnr", "Steuer-ID 36574261809", "36574261809"),
    ("es-dni", "DNI 54362315K", "54362315K"),
    ("es-nie", "NIE X-2482300-W", "X-2482300-W"),
    ("it-cf", "RCCMNL83S18D969H", "RCCMNL83S18D969H"),
    ("cn-ric", "身份证号11010519491231002X。", "11010519491231002X"),
    ("kr-rrn", "971013-9019902", "971013-9019902"),
    ("jp-my-number", "マイナンバー：6214 9832 0257", "6214 9832 0257"),
    ("br-cpf", "CPF 390.533.447-05", "390.533.447-05"),
    ("br-cnpj", "16.727.230/0001-97", "16.727.230/0001-97"),
    ("in-aadhaar", "आधार 2341 2341 2346", "2341 2341 2346"),
    ("in-pan", "PAN ACUPA7085R", "ACUPA7085R"),
    ("aws-key", "key AKIAIOSFODNN7EXAMPLE here", "AKIAIOSFODNN7EXAMPLE"),
    (
        "aws-key",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    ("bearer-token", "Authorization: Bearer abcdefgh12345678ij", "abcdefgh12345678ij"),
    (
        "jwt",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_x.",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln-_x",
    ),
    ("api-key", "api_key = 'abcd1234efgh5678'", "abcd1234efgh5678"),
    ("api-key", '{"client_secret":"s3cr3t-v4lue!"}', "s3cr3t-v4lue!"),
    ("api-key", "password: hunter2hunter2", "hunter2hunter2"),
]

ROWS = [
    ("Smith,1980,123-45-6789,4111111111111111,F", ["123-45-6789", "4111111111111111"]),
    ("7,4111111111111111,12/27,123", ["4111111111111111"]),
    ("4111111111111111,5500005555555559", ["4111111111111111", "5500005555555559"]),
    ("4111111111111111/5500005555555559", ["4111111111111111", "5500005555555559"]),
    ("Ann,212-555-0123,F", ["212-555-0123"]),
    ("212-555-0123,212-555-0124", ["212-555-0123", "212-555-0124"]),
    ("212-555-0123/212-555-0124", ["212-555-0123", "212-555-0124"]),
    ("Ann,+493090182000,42", ["+493090182000"]),
    ("Ann,+49 30 90182000,F", ["+49 30 90182000"]),
    ("+49 30 90182000/+49 30 90182001", ["+49 30 90182000", "+49 30 90182001"]),
    ("[123-45-6789,234-56-7890]", ["123-45-6789", "234-56-7890"]),
    ("1,390.533.447-05,11010519491231002X,x", ["390.533.447-05", "11010519491231002X"]),
    ("Ro,RCCMNL83S18D969H,54362315K/AB123456C", ["RCCMNL83S18D969H", "54362315K", "AB123456C"]),
    ("joe@example.com/10.0.0.1", ["joe@example.com", "10.0.0.1"]),
    ("Tel.+49 30 901820/joe@example.com", ["+49 30 901820", "joe@example.com"]),
    ("card_number_4111111111111111", ["4111111111111111"]),
    ("4111111111111111_, ssn_123-45-6789_x", ["4111111111111111", "123-45-6789"]),
    ("iban_DE89370400440532013000_x", ["DE89370400440532013000"]),
    ("4111_1111_1111_1111", ["4111_1111_1111_1111"]),
    ("4111111111111111.00", ["4111111111111111"]),
    ("%B4111111111111111^DOE/JOHN^2712101", ["4111111111111111"]),
    (";4111111111111111=2712101?", ["4111111111111111"]),
    ("card 4111 1111\n1111 1111 ok", ["4111 1111\n1111 1111"]),
    ("card 4111111111\r\n111111", []),
    ("3782 822463\r\n10005", ["3782 822463\r\n10005"]),
    ("ring +49 30\n90182000 now", ["+49 30\n90182000"]),
    ("+49 30 90182000\n12 apples", ["+49 30 90182000"]),
    ("**4111** 1111 1111 **1111**", ["4111** 1111 1111 **1111"]),
    ("**+49** 30 90182000", ["+49** 30 90182000"]),
    ("4111 / 1111 / 1111 / 1111", ["4111 / 1111 / 1111 / 1111"]),
    ("joe&#64;example.com, joe%40example.com", ["joe&#64;example.com", "joe%40example.com"]),
    (r"joe&commat;example.com joe\u0040example.com", None),
]


@pytest.mark.parametrize(("text", "values"), ROWS)
def test_neighbours_hide_no_value(text: str, values: list[str] | None) -> None:
    """Rows, underscores, emphasis, one end of a line, signs as HTML and URLs have them (G-A)."""
    found = [found.value for found in DETECTOR.find(text)]
    assert found == (text.split() if values is None else values)


@pytest.mark.parametrize(("type_id", "text", "value"), FOUND)
def test_values_are_found(type_id: str, text: str, value: str) -> None:
    """B-129: exactly the value, at its place, and nothing else."""
    [found] = DETECTOR.find(text)
    assert (found.type, found.value) == (type_id, value)
    assert text[found.start : found.end] == value
    assert 0.6 <= found.confidence <= 1


BODY = "Zq3xW9vT7mK2pL5nR8sJ4hG6fD1cB0yA"
KEYS = [
    f"sk-{BODY}",
    f"sk-proj-{BODY}",
    f"sk-ant-api03-{BODY}",
    f"ghp_{BODY}abcd",
    f"github_pat_{BODY}",
    f"glpat-{BODY[:20]}",
    f"xoxb-123456789012-{BODY[:24]}",
    f"sk_live_{BODY[:24]}",
    f"AIza{BODY}abc",
    f"SG.{BODY[:22]}.{BODY}abcdefghijk",
    "SK" + "0123456789abcdef" * 2,
    f"npm_{BODY}abcd",
    f"pypi-{BODY}{BODY}",
    f"hf_{BODY}ab",
]


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_vendors_are_found(key: str) -> None:
    """By their prefixes, in the middle of a sentence too."""
    [found] = DETECTOR.find(f"I use ({key}), you know.")
    assert (found.type, found.value) == ("api-key", key)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- z", slice(2, -2)),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl joe@example.com", slice(None)),
        ("x=-----BEGIN PRIVATE KEY-----\\nMII", slice(2, None)),
    ],
)
def test_a_private_key_reaches_to_its_last_line_or_the_end(text: str, value: slice) -> None:
    """What stands in it is part of it."""
    [found] = DETECTOR.find(text)
    assert (found.type, found.value) == ("private-key", text[value])


UNLIKE = [
    "We run version 1.2.3.4 and 10.0.19041.1 of it, since v2.0.0.1",
    "At 12:30:45 on 2024-03-12, 12.03.2024, 03/12/2024 or 2024-03-12T12:30:45Z",
    "ISBN 978-3-16-148410-0 and 9783161484100 cost $1,234.56 or 1.234,56 €",
    "#ff8800 and 3f2a9c1 and da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "4111 1111 1111 1112 and 4111111111111112 have another last digit",  # Luhn (B-136)
    "DE89 3704 0044 0532 0130 01",  # remainder by 97
    "DE8937040044053201300 is too short",
    "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb",  # the checksum
    "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",  # EIP-55
    "000-12-3456 and 666-12-3456",  # never given out
    "390.533.447-06 and 54362315A and 971313-1019902",
    "phone it in, version 36.10.20.32 is out; digits = '0123456789' and 1234567890",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx, ghp_000000000000000000000000000000000000",
    "std::vector<int> a::b, lodash@4.17.21, git@github.com:x/y.git, @handle",
    "call foo(1, 2) and f(x) = 3; the order 1234567890123 of 2024",
    "sk-ing, risk-averse, task-oriented-programming; eyJust",
    "password: required; the token is optional; secret = None",
    "The password is at least twelve characters long.",
    "bearer of good news, Bearer tokens",
    "1,234,567,890.00 and 1.234.567,89/2.345.678,90 or 0,4111111111111111 or 0.4111111111111111",
    "2024-01-02,2024-01-03 and 01/02/2024,03/04/2024 and 2024/01/02 3456 7890",
    "IMG_20240301_123456.jpg, 3.4111111111111111, 4111111111111111.25, 1600000000,1700000000",
    "4111 1111\n1111 1111 2222",
    "2222 3333\n4111 1111\n1111 1111",
    "chrome/10.0.0.1, about +1234567,89 €, 13812345678,00 ¥",
]


@pytest.mark.parametrize("text", UNLIKE)
def test_what_only_looks_like_it_is_left_alone(text: str) -> None:
    """Wrong checksums, versions, dates, hashes, prices, code."""
    assert DETECTOR.find(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4111111111111111", [("credit-card", "4111111111111111")]),
        ("https://joe:pw@example.com/x", [("url-credentials", "https://joe:pw@example.com/x")]),
        ("https://example.com/?to=a@b.com", [("url", "https://example.com/?to=a@b.com")]),
        ("joe@example.com 123-45-6789", [("email", "joe@example.com"), ("ssn", "123-45-6789")]),
    ],
)
def test_overlapping_finds_are_one_named_by_the_longest(
    text: str, expected: list[tuple[str, str]]
) -> None:
    """B-125, B-233."""
    assert [(found.type, found.value) for found in DETECTOR.find(text)] == expected


def test_only_the_types_that_were_asked_for_are_found() -> None:
    """B-129: types are independent of one another."""
    text = "joe@example.com 4111111111111111 -----BEGIN PRIVATE KEY----- a@example.com"
    assert [found.type for found in LocalDetector(["email"]).find(text)] == ["email", "email"]
    assert [found.type for found in LocalDetector(["credit-card"]).find(text)] == ["credit-card"]
    assert [found.type for found in LocalDetector(["api-key"]).find("AKIAIOSFODNN7EXAMPLE")] == [
        "api-key"
    ]


def test_regions_decide_which_national_numbers_are_found() -> None:
    """A number in national form means something in its own country only."""
    text = "030 901820"
    assert LocalDetector(["phone"], regions=["DE"]).find(text)
    assert LocalDetector(["phone"], regions=["US"]).find(text) == []
    assert LocalDetector(["phone"], regions=[]).find("+49 30 901820")


def test_a_word_before_makes_a_number_more_certain() -> None:
    """Context raises the confidence, and only what is near does."""
    bare = DETECTOR.find("123-45-6789")[0].confidence
    assert DETECTOR.find("SSN: 123-45-6789")[0].confidence > bare
    assert DETECTOR.find("SSN " + "is not what this text is about " * 3 + "123456789") == []


def test_values_stay_out_of_representations() -> None:
    """Secrets reach no log by accident."""
    assert "joe" not in repr(DETECTOR.find("joe@example.com"))


def test_a_range_of_a_text_can_be_looked_at() -> None:
    """Offsets are those of the whole text; what stands before `start` speaks for a value."""
    text = "SSN 123456789 joe@example.com"
    assert [found.value for found in DETECTOR.find(text, 4, 14)] == ["123456789"]
    assert [found.start for found in DETECTOR.find(text, 14)] == [14]


def test_groups_are_names_for_several_types() -> None:
    """`national-id` is what all countries have."""
    assert set(LocalDetector(["national-id"]).types) == set(GROUPS["national-id"])
    assert LocalDetector().types == LOCAL_TYPES
