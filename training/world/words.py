"""The words that fill the slots of the little world.

In: nothing. Out: constants; numbers come with their spoken form.
Must not know: sentences.
"""

from __future__ import annotations

NAMES = tuple(
    "Anna Ben Carla David Emma Frank Grace Henry Iris Jack Kate Leo Maria Nick Olivia Peter Rosa Sam Tina Victor "
    "Wendy Oscar Lucy Martin Nora Paul Julia Tom".split()
)
COMPANIES = (
    "Green Garden",
    "Blue River",
    "Golden Crust",
    "Night Owl",
    "Silver Spoon",
    "Happy Paws",
    "Bright Sound",
    "Rapid Wheels",
    "Snow Peak",
    "Little Star",
    "Fresh Bean",
    "City Lights",
    "Royal Shoes",
    "Tech World",
    "Ocean Breeze",
    "Clear View",
)
KINDS = (
    "flower shop",
    "bike shop",
    "bakery",
    "bookstore",
    "restaurant",
    "pet store",
    "music store",
    "sports shop",
    "toy store",
    "coffee shop",
    "pizza place",
    "shoe store",
    "computer store",
    "furniture store",
    "gift shop",
    "hotel",
)
PRODUCTS = tuple(
    "bike guitar laptop phone lamp table chair jacket camera watch pizza sandwich cake bouquet ticket puzzle book tent "
    "helmet sofa backpack ring clock teapot".split()
)
PRICES = {
    5: "five",
    8: "eight",
    10: "ten",
    12: "twelve",
    15: "fifteen",
    20: "twenty",
    25: "twenty five",
    30: "thirty",
    40: "forty",
    45: "forty five",
    50: "fifty",
    60: "sixty",
    75: "seventy five",
    80: "eighty",
    90: "ninety",
    99: "ninety nine",
    120: "one hundred twenty",
    200: "two hundred",
    300: "three hundred",
    500: "five hundred",
}
CLOSES = {4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven"}
OPENS = {6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
DAYS = {1: "one day", 2: "two days", 3: "three days", 4: "four days", 5: "five days", 6: "six days", 7: "seven days"}
WEEKDAYS = ("Monday", "Tuesday", "Saturday", "Sunday")
DISCOUNTS = {5: "five", 10: "ten", 20: "twenty", 30: "thirty"}
CITIES = tuple("Boston Paris London Berlin Chicago Denver Austin Dublin Rome Madrid Oslo Seattle".split())
HOBBIES = tuple("tennis chess cooking dancing reading swimming painting hiking fishing singing".split())
COLORS = tuple("red blue green yellow purple orange black white".split())
FOODS = tuple("pasta soup salad chocolate cheese rice bread sushi".split())
JOBS = tuple("teacher nurse driver farmer painter doctor baker pilot".split())
CAPITALS = {
    "France": "Paris",
    "Germany": "Berlin",
    "Italy": "Rome",
    "Spain": "Madrid",
    "England": "London",
    "Ireland": "Dublin",
    "Norway": "Oslo",
    "Portugal": "Lisbon",
    "Austria": "Vienna",
    "Japan": "Tokyo",
    "Russia": "Moscow",
    "Greece": "Athens",
}
THING_COLORS = {"sky": "blue", "grass": "green", "snow": "white", "sun": "yellow", "blood": "red"}
COUNTS = {
    "days are in a week": "seven",
    "months are in a year": "twelve",
    "hours are in a day": "twenty four",
    "minutes are in an hour": "sixty",
    "legs are on a dog": "four",
    "wheels are on a bike": "two",
}
SUMS = {
    ("one", "one"): "two",
    ("two", "two"): "four",
    ("two", "three"): "five",
    ("three", "three"): "six",
    ("four", "four"): "eight",
    ("five", "five"): "ten",
    ("six", "three"): "nine",
    ("ten", "ten"): "twenty",
}
ADVICE = {
    "sleep": "Try to go to bed at the same time every night.",
    "focus": "Put your phone in another room for one hour.",
    "learn": "Learn a little every day and speak out loud.",
    "relax": "Take a slow walk and breathe deeply.",
    "exam": "Start early and explain it to a friend.",
    "cook": "Begin with soup, it forgives every mistake.",
}


def plural(noun: str) -> str:
    """bikes, watches."""
    return noun + ("es" if noun.endswith(("ch", "x")) else "s")


def with_article(noun: str) -> str:
    """a bike, an owl."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun
