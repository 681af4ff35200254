# ruff: noqa: RUF001  # signs of many scripts that look alike
"""Sentences around values, in ten languages: `{v}` is where the value stands.

`say` names a type; the sentences of a type may use its name, as people do. `plain` sentences fit
any value that needs no word beside it. `not` sentences hold what only looks like personal data.
"""

from __future__ import annotations

__all__ = ["FILLERS", "PLAIN", "SAID", "UNLIKE"]

PLAIN: dict[str, tuple[str, ...]] = {
    "en": ("Here it is: {v}.", "I have noted {v} for you.", "It should be {v}, I think.", "{v}"),
    "fr": ("Le voici : {v}.", "J'ai noté {v} pour vous.", "C'est {v}, je crois.", "{v}"),
    "de": ("Hier ist sie: {v}.", "Ich habe {v} notiert.", "Es müsste {v} sein.", "{v}"),
    "es": ("Aquí está: {v}.", "He anotado {v} para usted.", "Creo que es {v}.", "{v}"),
    "it": ("Eccolo: {v}.", "Ho annotato {v} per lei.", "Credo che sia {v}.", "{v}"),
    "zh": ("在这里：{v}。", "我已经为您记下{v}，请核对。", "应该是 {v} 吧。", "{v}"),
    "ko": ("여기 있습니다: {v}.", "{v} 적어 두었습니다.", "아마 {v} 일 것입니다.", "{v}"),
    "ja": ("こちらです：{v}。", "{v}と記録しました。", "たぶん {v} です。", "{v}"),
    "pt": ("Aqui está: {v}.", "Anotei {v} para você.", "Acho que é {v}.", "{v}"),
    "hi": ("यह रहा: {v}।", "मैंने {v} लिख लिया है।", "शायद {v} है।", "{v}"),
}

SAID: dict[str, dict[str, tuple[str, ...]]] = {
    "email": {
        "en": ("You can write to {v}.", "E-mail: {v}", "Is <{v}> still right?"),
        "fr": ("Écrivez à {v}.", "Courriel : {v}", "L'adresse ({v}) est-elle juste ?"),
        "de": ("Schreiben Sie an {v}.", "E-Mail: {v}", "Die Adresse „{v}“ stimmt noch."),
        "es": ("Escriba a {v}.", "Correo: {v}", "¿Sigue siendo {v}?"),
        "it": ("Scriva a {v}.", "E-mail: {v}", "L'indirizzo «{v}» va bene."),
        "zh": ("请发邮件到{v}。", "邮箱：{v}", "我的邮箱是{v}，谢谢"),
        "ko": ("{v}으로 보내 주세요.", "이메일: {v}", "제 메일은 {v}입니다."),
        "ja": ("{v}までご連絡ください。", "メール：{v}", "アドレスは{v}です。"),
        "pt": ("Escreva para {v}.", "E-mail: {v}", "O endereço é {v}, certo?"),
        "hi": ("{v} पर लिखें।", "ईमेल: {v}", "मेरा पता {v} है।"),
    },
    "phone": {
        "en": ("Please call {v} after six.", "Phone: {v}", "Text me at {v}."),
        "fr": ("Appelez le {v} après 18 heures.", "Téléphone : {v}", "Mon portable : {v}."),
        "de": ("Rufen Sie mich unter {v} an, Telefon ist am besten.", "Tel.: {v}", "Handy: {v}."),
        "es": ("Llame al {v} por la tarde.", "Teléfono: {v}", "Mi móvil es {v}."),
        "it": ("Chiami il {v} nel pomeriggio.", "Telefono: {v}", "Il mio cellulare è {v}."),
        "zh": ("请拨打{v}联系我。", "电话：{v}", "我的手机号是{v}。"),
        "ko": ("{v} 전화번호로 연락 주세요.", "전화: {v}", "휴대폰은 {v}입니다."),
        "ja": ("電話番号は{v}です。", "電話：{v}", "携帯は {v} です。"),
        "pt": ("Ligue para {v} depois das seis.", "Telefone: {v}", "Meu celular é {v}."),
        "hi": ("फ़ोन {v} पर करें।", "मोबाइल: {v}", "मेरा फोन नंबर {v} है।"),
    },
    "credit-card": {
        "en": ("Charge my card {v}.", "Card number: {v}"),
        "fr": ("Débitez ma carte {v}.", "Numéro de carte : {v}"),
        "de": ("Belasten Sie meine Karte {v}.", "Kartennummer: {v}"),
        "es": ("Cargue mi tarjeta {v}.", "Número de tarjeta: {v}"),
        "it": ("Addebiti sulla carta {v}.", "Numero di carta: {v}"),
        "zh": ("请从我的卡{v}扣款。", "卡号：{v}"),
        "ko": ("카드 {v} 로 결제해 주세요.", "카드 번호: {v}"),
        "ja": ("カード{v}で払います。", "カード番号：{v}"),
        "pt": ("Debite do meu cartão {v}.", "Número do cartão: {v}"),
        "hi": ("मेरे कार्ड {v} से लें।", "कार्ड संख्या: {v}"),
    },
    "national-id": {
        "en": ("My social security number is {v}.", "SSN: {v}"),
        "fr": ("Mon numéro de sécurité sociale est {v}.", "NIR : {v}"),
        "de": ("Meine Steuer-ID lautet {v}.", "Steueridentifikationsnummer: {v}"),
        "es": ("Mi DNI es {v}.", "DNI/NIE: {v}"),
        "it": ("Il mio codice fiscale è {v}.", "Codice fiscale: {v}"),
        "zh": ("我的身份证号是{v}。", "身份证号码：{v}"),
        "ko": ("제 주민등록번호는 {v}입니다.", "주민등록번호: {v}"),
        "ja": ("マイナンバーは{v}です。", "個人番号：{v}"),
        "pt": ("Meu CPF é {v}.", "CPF: {v}"),
        "hi": ("मेरा आधार नंबर {v} है।", "Aadhaar: {v}"),
    },
    "uk-nino": {"en": ("My national insurance number is {v}.", "NINO: {v}")},
    "uk-nhs": {"en": ("My NHS number is {v}.", "NHS: {v}")},
    "us-itin": {"en": ("My ITIN is {v}.",)},
    "br-cnpj": {"pt": ("O CNPJ é {v}.", "CNPJ: {v}")},
    "in-pan": {"hi": ("मेरा PAN {v} है।", "PAN: {v}")},
    "api-key": {
        "en": ("Use the key {v} for it.", "export API_KEY={v}"),
        "fr": ("Prenez la clé {v}.", "API_KEY={v}"),
        "de": ("Nehmen Sie den Schlüssel {v}.", 'api_key: "{v}"'),
        "es": ("Use la clave {v}.", "api_key = '{v}'"),
        "it": ("Usi la chiave {v}.", "API_KEY={v}"),
        "zh": ("请使用密钥{v}。", "API_KEY={v}"),
        "ko": ("{v} 키를 쓰세요.", "API_KEY={v}"),
        "ja": ("キー{v}を使ってください。", "API_KEY={v}"),
        "pt": ("Use a chave {v}.", "API_KEY={v}"),
        "hi": ("कुंजी {v} का उपयोग करें।", "API_KEY={v}"),
    },
    "assigned": {
        "": ('api_key = "{v}"', "password: {v}", 'client_secret="{v}"', "DB_PASSWORD={v}"),
    },
    "bearer-token": {"": ("Authorization: Bearer {v}", "-H 'Authorization: Bearer {v}'")},
    "aws-secret": {"": ("aws_secret_access_key = {v}", "AWS_SECRET_ACCESS_KEY={v}")},
}

FILLERS: dict[str, tuple[str, ...]] = {
    "en": (
        "The meeting starts at 10:30 in room 204.",
        "We sold 1,250 units last year, 3.5% more than before.",
        "Nothing else has changed since Monday.",
        "See section 4.2 of the manual for details.",
    ),
    "fr": (
        "La réunion commence à 10h30 en salle 204.",
        "Nous avons vendu 1 250 pièces, soit 3,5 % de plus.",
        "Rien d'autre n'a changé depuis lundi.",
    ),
    "de": (
        "Die Sitzung beginnt um 10.30 Uhr in Raum 204.",
        "Wir haben 1.250 Stück verkauft, 3,5 % mehr als zuvor.",
        "Sonst hat sich seit Montag nichts geändert.",
    ),
    "es": (
        "La reunión empieza a las 10:30 en la sala 204.",
        "Vendimos 1.250 unidades, un 3,5 % más.",
        "Nada más ha cambiado desde el lunes.",
    ),
    "it": (
        "La riunione inizia alle 10:30 nella sala 204.",
        "Abbiamo venduto 1.250 pezzi, il 3,5% in più.",
        "Nient'altro è cambiato da lunedì.",
    ),
    "zh": ("会议10:30在204室开始。", "去年我们卖出1250件，增长3.5%。", "自周一以来没有其他变化。"),
    "ko": (
        "회의는 10시 30분에 204호에서 시작합니다.",
        "작년에 1,250개를 팔아 3.5% 늘었습니다.",
        "월요일 이후로 바뀐 것이 없습니다.",
    ),
    "ja": (
        "会議は10時30分に204室で始まります。",
        "昨年は1,250個売れ、3.5%増えました。",
        "月曜日から変わっていません。",
    ),
    "pt": (
        "A reunião começa às 10h30 na sala 204.",
        "Vendemos 1.250 unidades, 3,5% a mais.",
        "Nada mais mudou desde segunda-feira.",
    ),
    "hi": (
        "बैठक 10:30 बजे कमरा 204 में शुरू होगी।",
        "पिछले साल 1,250 इकाइयाँ बिकीं, 3.5% अधिक।",
        "सोमवार से कुछ और नहीं बदला।",
    ),
}

UNLIKE: dict[str, dict[str, tuple[str, ...]]] = {
    "order": {
        "en": ("Your order number is {v}.", "Order {v} was shipped."),
        "fr": ("Votre commande {v} est partie.", "Numéro de commande : {v}"),
        "de": ("Ihre Bestellnummer ist {v}.", "Bestellung {v} ist unterwegs."),
        "es": ("Su pedido {v} ha salido.", "Número de pedido: {v}"),
        "it": ("Il suo ordine {v} è partito.", "Numero d'ordine: {v}"),
        "zh": ("您的订单号是{v}。", "订单{v}已发货。"),
        "ko": ("주문 번호는 {v}입니다.", "주문 {v} 발송되었습니다."),
        "ja": ("注文番号は{v}です。", "注文{v}を発送しました。"),
        "pt": ("Seu pedido {v} foi enviado.", "Número do pedido: {v}"),
        "hi": ("आपका ऑर्डर नंबर {v} है।", "ऑर्डर {v} भेज दिया गया।"),
    },
    "version": {
        "en": ("We run version {v} now.", "Release {v} is out."),
        "fr": ("Nous utilisons la version {v}.",),
        "de": ("Wir nutzen Version {v}.",),
        "es": ("Usamos la versión {v}.",),
        "it": ("Usiamo la versione {v}.",),
        "zh": ("我们使用版本{v}。", "版本 {v} 已发布。"),
        "ko": ("버전 {v} 을 씁니다.",),
        "ja": ("バージョン{v}を使います。",),
        "pt": ("Usamos a versão {v}.",),
        "hi": ("हम संस्करण {v} का उपयोग करते हैं।",),
    },
}
