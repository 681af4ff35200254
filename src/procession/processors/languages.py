"""Languages by name and by code: which texts name the same one, and what it is called (B-172)."""

from __future__ import annotations

__all__ = ["code_of", "name_of", "whole_of"]

_TABLE = """
aa aar Afar; ab abk Abkhazian; ae ave Avestan; af afr Afrikaans; ak aka Akan; am amh Amharic;
an arg Aragonese; ar ara Arabic; as asm Assamese; av ava Avaric; ay aym Aymara;
az aze Azerbaijani; ba bak Bashkir; be bel Belarusian; bg bul Bulgarian; bi bis Bislama;
bm bam Bambara; bn ben Bengali; bo bod tib Tibetan; br bre Breton; bs bos Bosnian;
ca cat Catalan; ce che Chechen; ch cha Chamorro; co cos Corsican; cr cre Cree;
cs ces cze Czech; cu chu Church Slavic; cv chv Chuvash; cy cym wel Welsh; da dan Danish;
de deu ger German; dv div Divehi; dz dzo Dzongkha; ee ewe Ewe; el ell gre Greek;
en eng English; eo epo Esperanto; es spa Spanish; et est Estonian; eu eus baq Basque;
fa fas per Persian; ff ful Fula; fi fin Finnish; fj fij Fijian; fo fao Faroese;
fr fra fre French; fy fry Western Frisian; ga gle Irish; gd gla Scottish Gaelic;
gl glg Galician; gn grn Guarani; gu guj Gujarati; gv glv Manx; ha hau Hausa; he heb Hebrew;
hi hin Hindi; ho hmo Hiri Motu; hr hrv Croatian; ht hat Haitian Creole; hu hun Hungarian;
hy hye arm Armenian; hz her Herero; ia ina Interlingua; id ind Indonesian;
ie ile Interlingue; ig ibo Igbo; ii iii Sichuan Yi; ik ipk Inupiaq; io ido Ido;
is isl ice Icelandic; it ita Italian; iu iku Inuktitut; ja jpn Japanese; jv jav Javanese;
ka kat geo Georgian; kg kon Kongo; ki kik Kikuyu; kj kua Kuanyama; kk kaz Kazakh;
kl kal Kalaallisut; km khm Khmer; kn kan Kannada; ko kor Korean; kr kau Kanuri;
ks kas Kashmiri; ku kur Kurdish; kv kom Komi; kw cor Cornish; ky kir Kyrgyz; la lat Latin;
lb ltz Luxembourgish; lg lug Ganda; li lim Limburgish; ln lin Lingala; lo lao Lao;
lt lit Lithuanian; lu lub Luba-Katanga; lv lav Latvian; mg mlg Malagasy; mh mah Marshallese;
mi mri mao Maori; mk mkd mac Macedonian; ml mal Malayalam; mn mon Mongolian; mr mar Marathi;
ms msa may Malay; mt mlt Maltese; my mya bur Burmese; na nau Nauru; nb nob Norwegian Bokmål;
nd nde North Ndebele; ne nep Nepali; ng ndo Ndonga; nl nld dut Dutch;
nn nno Norwegian Nynorsk; no nor Norwegian; nr nbl South Ndebele; nv nav Navajo;
ny nya Chichewa; oc oci Occitan; oj oji Ojibwa; om orm Oromo; or ori Odia; os oss Ossetian;
pa pan Punjabi; pi pli Pali; pl pol Polish; ps pus Pashto; pt por Portuguese; qu que Quechua;
rm roh Romansh; rn run Rundi; ro ron rum Romanian; ru rus Russian; rw kin Kinyarwanda;
sa san Sanskrit; sc srd Sardinian; sd snd Sindhi; se sme Northern Sami; sg sag Sango;
sh hbs Serbo-Croatian; si sin Sinhala; sk slk slo Slovak; sl slv Slovenian; sm smo Samoan;
sn sna Shona; so som Somali; sq sqi alb Albanian; sr srp Serbian; ss ssw Swati;
st sot Southern Sotho; su sun Sundanese; sv swe Swedish; sw swa Swahili; ta tam Tamil;
te tel Telugu; tg tgk Tajik; th tha Thai; ti tir Tigrinya; tk tuk Turkmen; tl tgl Tagalog;
tn tsn Tswana; to ton Tongan; tr tur Turkish; ts tso Tsonga; tt tat Tatar; tw twi Twi;
ty tah Tahitian; ug uig Uyghur; uk ukr Ukrainian; ur urd Urdu; uz uzb Uzbek; ve ven Venda;
vi vie Vietnamese; vo vol Volapük; wa wln Walloon; wo wol Wolof; xh xho Xhosa;
yi yid Yiddish; yo yor Yoruba; za zha Zhuang; zh zho chi Chinese; zu zul Zulu
"""
"""ISO 639-1: the code, the codes of three letters, the English name."""

_OWN_NAMES = """
ar العربية; bg български; bn বাংলা; cs čeština; da dansk; de Deutsch; el ελληνικά; es español;
es castellano; fa فارسی; fi suomi; fr français; he עברית; hi हिन्दी; hu magyar; id bahasa indonesia;
it italiano; ja 日本語; ko 한국어; nl Nederlands; no norsk; pl polski; pt português; ro română;
ru русский; sv svenska; th ไทย; tr Türkçe; uk українська; ur اردو; vi tiếng Việt; zh 中文; zh 汉语;
zh 漢語; el Modern Greek; es Castilian; fa Farsi; ht Haitian; ky Kirghiz; li Limburgan; my Myanmar;
nl Flemish; or Oriya; pa Panjabi; ps Pushto; si Sinhalese; tl Filipino; tl fil; ug Uighur;
zh Mandarin; zh Mandarin Chinese; zh Cantonese; zh cmn; zh yue; ar arb; fa pes; ms zsm; sw swh;
az azj; et ekk; lv lvs; mn khk; ne npi; or ory; sq als; uz uzn; yi ydd; he iw; id in; yi ji
"""
"""Other names and codes of a language, among them what it calls itself."""

_WHOLES = {"nb": "no", "nn": "no", "tw": "ak"}
"""Languages that are a form of another one with a code of its own."""


def code_of(language: str) -> str | None:
    """The code of two letters for a name or code, in any case; `None` for one not known here.

    Names are English ones, and those of many languages in themselves. Of a code with a region or a
    script (`pt-BR`, `zh_Hant`) the language counts.
    """
    wanted = language.strip().casefold()
    found = _CODES.get(wanted)
    if found is None:
        code = wanted.replace("_", "-").partition("-")[0]
        found = _CODES.get(code) if len(code) <= 3 else None
    return found


def name_of(code: str) -> str:
    """The English name of a language; of an unknown one the code itself."""
    return _NAMES.get(code, code)


def whole_of(code: str) -> str:
    """The language that this one is a form of, or itself: `nb` and `nn` are both `no`."""
    return _WHOLES.get(code, code)


def _read() -> tuple[dict[str, str], dict[str, str]]:
    names: dict[str, str] = {}
    codes: dict[str, str] = {}
    for entry in _entries(_TABLE):
        code, *others = entry.split()
        longer = [word for word in others if len(word) == 3 and word.islower()]
        names[code] = name = " ".join(others[len(longer) :])
        codes |= dict.fromkeys((code, *longer, name.casefold()), code)
    for entry in _entries(_OWN_NAMES):
        code, _, name = entry.partition(" ")
        codes[name.casefold()] = code
    return names, codes


def _entries(table: str) -> list[str]:
    return [" ".join(entry.split()) for entry in table.split(";")]


_NAMES, _CODES = _read()
