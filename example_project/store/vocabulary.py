"""The words the example data is made of: people, places and things. Plain data, nothing is drawn here."""

from __future__ import annotations

from dataclasses import dataclass

Words = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class City:
    """A place where customers live. ``#`` in the postal code stands for a digit."""

    name: str
    postal: str
    north: bool


@dataclass(frozen=True, kw_only=True)
class Country:
    """How people and streets are called in one country. ``{}`` in a street stands for the house number."""

    name: str
    share: int  # of customers, relative to the other countries
    phone: str
    women: Words
    men: Words
    women_surnames: Words
    men_surnames: Words
    streets: Words
    cities: tuple[City, ...]


def _cities(**places: str) -> tuple[City, ...]:
    """Read "Name postal; Name postal" for north and for south."""
    found = []
    for side, text in places.items():
        for place in text.split("; "):
            name, postal = place.split(" | ")
            found.append(City(name=name, postal=postal, north=side == "north"))
    return tuple(found)


def _words(text: str) -> Words:
    return tuple(text.split(", "))


_GERMAN = _words(
    "Müller, Schäfer, Köhler, Vogel, Krüger, Hoffmann, Jäger, Brandt, Weiß, Lorenz, Böhm, Petersen"
)
_SWEDISH = _words("Lindqvist, Åkesson, Bergström, Sjöberg, Nyström, Holm, Öberg, Dahl, Ekström, Hägg")
_ITALIAN = _words("Rossi, Ferrari, Bianchi, Colombo, Ricci, Marino, Greco, Conti, De Luca, Costa")
_SPANISH = _words("García, Fernández, López, Martínez, Gómez, Muñoz, Ibáñez, Núñez, Ortega, Vidal")
_FRENCH = _words("Lefèvre, Moreau, Fournier, Girard, Béranger, Rousseau, Mercier, Chevalier, Noël, Garnier")

COUNTRIES: tuple[Country, ...] = (
    Country(
        name="Poland",
        share=34,
        phone="+48 5## ### ###",
        women=_words("Zofia, Małgorzata, Agnieszka, Łucja, Żaneta, Hanna, Grażyna, Elżbieta, Julia, Bożena"),
        men=_words("Łukasz, Paweł, Michał, Stanisław, Jędrzej, Krzysztof, Wojciech, Tomasz, Błażej, Adam"),
        women_surnames=_words(
            "Wiśniewska, Kowalska, Wójcik, Dąbrowska, Pawłowska, Zając, Król, Szczęsna, Gołębiowska, Błaszczyk"
        ),
        men_surnames=_words(
            "Wiśniewski, Kowalski, Wójcik, Dąbrowski, Pawłowski, Zając, Król, Szczęsny, Gołębiowski, Błaszczyk"
        ),
        streets=_words("ul. Długa {}, ul. Świętojańska {}, ul. Kościuszki {}, ul. Źródlana {}, al. Róż {}"),
        cities=_cities(
            north="Gdańsk | 80-###; Gdynia | 81-###; Olsztyn | 10-###; Białystok | 15-###; Toruń | 87-###; "
            "Bydgoszcz | 85-###; Szczecin | 70-###; Słupsk | 76-###",
            south="Kraków | 31-###; Wrocław | 50-###; Łódź | 90-###; Rzeszów | 35-###; Bielsko-Biała | 43-###; "
            "Częstochowa | 42-###; Zakopane | 34-###; Tarnów | 33-###",
        ),
    ),
    Country(
        name="Germany",
        share=20,
        phone="+49 15# #######",
        women=_words("Anna, Jördis, Greta, Käthe, Ingrid, Lena, Sabine, Heike"),
        men=_words("Jörg, Götz, Lukas, Björn, Matthias, Uwe, Stefan, Felix"),
        women_surnames=_GERMAN,
        men_surnames=_GERMAN,
        streets=_words("Lindenstraße {}, Bahnhofstraße {}, Mühlenweg {}, Am Großen Markt {}, Schloßallee {}"),
        cities=_cities(
            north="Hamburg | 20###; Kiel | 24###; Lübeck | 23###; Bremen | 28###; Rostock | 18###",
            south="München | 80###; Nürnberg | 90###; Würzburg | 97###; Stuttgart | 70###; Freiburg | 79###",
        ),
    ),
    Country(
        name="Sweden",
        share=10,
        phone="+46 7# ### ## ##",
        women=_words("Sofia, Åsa, Märta, Elin, Karin, Linnéa"),
        men=_words("Björn, Göran, Erik, Håkan, Oskar, Nils"),
        women_surnames=_SWEDISH,
        men_surnames=_SWEDISH,
        streets=_words("Storgatan {}, Ängsvägen {}, Kyrkogatan {}, Björkvägen {}"),
        cities=_cities(
            north="Stockholm | 11# ##; Uppsala | 75# ##; Umeå | 90# ##; Gävle | 80# ##; Göteborg | 41# ##"
        ),
    ),
    Country(
        name="Czechia",
        share=10,
        phone="+420 6## ### ###",
        women=_words("Božena, Jiřina, Markéta, Tereza, Zdeňka, Lenka"),
        men=_words("Jiří, Ondřej, Tomáš, Václav, Zdeněk, Matěj"),
        women_surnames=_words("Nováková, Dvořáková, Černá, Procházková, Růžičková, Šimková"),
        men_surnames=_words("Novák, Dvořák, Černý, Procházka, Růžička, Šimek"),
        streets=_words("Dlouhá {}, Nádražní {}, Na Příkopě {}, Růžová {}"),
        cities=_cities(south="Praha | 1## 00; Brno | 6## 00; Plzeň | 3## 00; České Budějovice | 370 ##"),
    ),
    Country(
        name="Italy",
        share=9,
        phone="+39 33# ### ####",
        women=_words("Giulia, Chiara, Beatrice, Noemi, Francesca, Elena"),
        men=_words("Niccolò, Marco, Luca, Matteo, Paolo, Giosuè"),
        women_surnames=_ITALIAN,
        men_surnames=_ITALIAN,
        streets=_words("Via Roma {}, Via della Libertà {}, Corso Garibaldi {}, Piazza San Nicolò {}"),
        cities=_cities(south="Milano | 201##; Torino | 101##; Bologna | 401##; Forlì | 471##; Roma | 001##"),
    ),
    Country(
        name="Spain",
        share=7,
        phone="+34 6## ### ###",
        women=_words("Lucía, María, Inés, Begoña, Carmen, Sofía"),
        men=_words("José, Andrés, Iñaki, Javier, Álvaro, Diego"),
        women_surnames=_SPANISH,
        men_surnames=_SPANISH,
        streets=_words("Calle Mayor {}, Calle de Alcalá {}, Avenida de la Constitución {}, Plaza España {}"),
        cities=_cities(
            south="Madrid | 280##; Málaga | 290##; Cádiz | 110##; A Coruña | 150##; Logroño | 260##"
        ),
    ),
    Country(
        name="France",
        share=7,
        phone="+33 6 ## ## ## ##",
        women=_words("Élodie, Chloé, Françoise, Aurélie, Manon, Solène"),
        men=_words("Benoît, François, Théo, Jérôme, Luc, Gaël"),
        women_surnames=_FRENCH,
        men_surnames=_FRENCH,
        streets=_words(
            "{} rue Victor Hugo, {} rue de la République, {} allée des Érables, {} place du Marché"
        ),
        cities=_cities(
            north="Lille | 59###; Rouen | 76###; Brest | 29###; Orléans | 45###",
            south="Lyon | 69###; Nîmes | 30###; Béziers | 34###; Toulouse | 31###",
        ),
    ),
    Country(
        name="Lithuania",
        share=3,
        phone="+370 6## #####",
        women=_words("Rūta, Eglė, Giedrė, Ona"),
        men=_words("Jonas, Mindaugas, Žygimantas, Tomas"),
        women_surnames=_words("Kazlauskienė, Petrauskaitė, Žukauskienė, Šimkutė"),
        men_surnames=_words("Kazlauskas, Petrauskas, Žukauskas, Šimkus"),
        streets=_words("Gedimino g. {}, Vilniaus g. {}, Žalgirio g. {}"),
        cities=_cities(north="Vilnius | 01###; Kaunas | 44###; Klaipėda | 91###; Šiauliai | 76###"),
    ),
)

NORTHERN_CITIES = frozenset(city.name for country in COUNTRIES for city in country.cities if city.north)


@dataclass(frozen=True, kw_only=True)
class Things:
    """One category and what is sold in it: nouns, and prices in euro from the lowest to the highest."""

    category: str
    code: str  # begins the SKU
    nouns: Words
    lowest: int
    highest: int


CATEGORIES: tuple[Things, ...] = (
    Things(
        category="Lighting",
        code="LIG",
        nouns=_words("desk lamp, floor lamp, pendant light, wall light, lantern, reading lamp"),
        lowest=19,
        highest=240,
    ),
    Things(
        category="Furniture",
        code="FUR",
        nouns=_words("chair, stool, side table, bookcase, bench, sideboard"),
        lowest=49,
        highest=890,
    ),
    Things(
        category="Kitchen",
        code="KIT",
        nouns=_words("mug, teapot, frying pan, chopping board, bowl, carafe"),
        lowest=8,
        highest=90,
    ),
    Things(
        category="Textiles",
        code="TEX",
        nouns=_words("blanket, cushion, rug, curtain, throw, tablecloth"),
        lowest=15,
        highest=260,
    ),
    Things(
        category="Bath",
        code="BAT",
        nouns=_words("towel, bath mat, soap dish, mirror, laundry basket, shower shelf"),
        lowest=7,
        highest=120,
    ),
    Things(
        category="Garden",
        code="GAR",
        nouns=_words("planter, watering can, garden chair, bird house, hammock, fire bowl"),
        lowest=12,
        highest=320,
    ),
    Things(
        category="Office",
        code="OFF",
        nouns=_words("notebook, pen tray, desk organiser, document box, desk pad, monitor stand"),
        lowest=5,
        highest=110,
    ),
    Things(
        category="Storage",
        code="STO",
        nouns=_words("basket, storage box, coat rack, shelf, hook rail, umbrella stand"),
        lowest=9,
        highest=180,
    ),
    Things(
        category="Décor",
        code="DEC",
        nouns=_words("vase, candle holder, picture frame, wall clock, tray, sculpture"),
        lowest=9,
        highest=150,
    ),
    Things(
        category="Children",
        code="CHI",
        nouns=_words("building blocks, night light, toy chest, play mat, rocking horse, growth chart"),
        lowest=10,
        highest=190,
    ),
)

MATERIALS = _words(
    "Walnut, Oak, Ash, Steel, Brass, Glass, Linen, Wool, Ceramic, Stoneware, Bamboo, Copper, Cork"
)
COLOURS = _words("natural, white, black, sand, forest green, sky blue, terracotta, mustard, graphite, rose")
TAGS = _words(
    "New, Sale, Bestseller, Handmade, Recycled, Gift idea, Limited edition, Fragile, Bulky, Made in Europe, "
    "Vegan, Outdoor"
)
SUPPLIERS: tuple[tuple[str, str], ...] = (
    ("Bałtyk Design", "Poland"),
    ("Tatra Drewno", "Poland"),
    ("Nordljus AB", "Sweden"),
    ("Lübecker Werkstätten", "Germany"),
    ("Schwarzwald Holz GmbH", "Germany"),
    ("Moravské sklo", "Czechia"),
    ("Officina Bianchi", "Italy"),
    ("Cerámica Ibáñez", "Spain"),
    ("Atelier du Nord", "France"),
    ("Vilniaus Linas", "Lithuania"),
)
NOTES = _words(
    "Pays late and always pays, Asked for an invoice by post, Do not offer discounts, Returned three orders last year, "
    "Knows the owner, Prefers to be called in the morning, Disputed a payment once"
)
REFUND_REASONS = _words(
    "Arrived damaged, Ordered twice, Changed their mind, Arrived too late, Wrong colour, Part missing"
)
