"""Words that stand before phone numbers, and before numbers that only look like one."""

from __future__ import annotations

import re

__all__ = ["AGAINST", "FOR", "WORDS"]


WORDS = re.compile(
    r"phone|\btel\b|\btel[.:]|tél|t[eé]l[eé]f|\bfon\b|mobil|\bcell|\bcall|\bring\b|\bdial|fax"
    r"|whatsapp|\bsms\b|text (?:me|us)|reach (?:me|us|him|her|them)|handy|ruf(?:en|nummer)?\b"
    r"|anruf|appel|joindre|portable|móvil|movil|celular|llam[ae]|marque|ligue|liga(?:r|\b)|cellulare|chiam[ai]"
    r"|电话|電話|手机|致电|拨打|联系|联络|携帯|連絡|전화|연락|휴대|फ़ोन|फोन|मोबाइल|कॉल|दूरभाष|टेलीफोन",
    re.IGNORECASE,
)
"""These words speak for a phone number."""

OTHERS = re.compile(
    r"\border\b(?! to)|invoice|\bref\b|reference|ticket|\bcase\b|isbn|issn|\bsku\b|serial|tracking"
    r"|version|commit|bestell|rechnung|auftrag|artikel|commande|facture|pedido|factura|ordine|fattura"
    r"|fatura|nota fiscal|订单|发票|注文|請求|주문|송장|ऑर्डर"
    r"|\bpart n|parcel|shipment|timestamp|\bdate\b|account|\bssn\b|social|\bnhs\b"
    r"|steuer|\bcpf\b|\bcnpj\b|\bdni\b|\bcarte\b|\bcard|karte|tarjeta|carta\b|cartão|iban|aadhaar|tax\b"
    r"|आधार|कार्ड|身份证|卡|주민|카드|マイナンバー|個人番号|カード",
    re.IGNORECASE,
)
"""These for another one."""

FOR = re.compile(rf"(?:{WORDS.pattern})[^0-9]{{0,40}}\Z", re.IGNORECASE)
AGAINST = re.compile(rf"(?:{OTHERS.pattern})[^0-9]{{0,40}}\Z", re.IGNORECASE)
"""The same right before the number, with no other number between."""
