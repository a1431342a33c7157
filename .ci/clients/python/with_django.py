"""Django: the migrations of its own applications and of one of ours, its ORM, and what inspectdb reads, over psycopg 3."""

import datetime as dt
import decimal
import io
import json
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import django
from django.conf import settings

from checks import URL, check, fails, run, same

where = urlsplit(URL)
folder = tempfile.TemporaryDirectory()
application = Path(folder.name) / "library"
(application / "migrations").mkdir(parents=True)
(application / "__init__.py").touch()
(application / "migrations" / "__init__.py").touch()
(application / "models.py").write_text('''
from django.contrib.postgres.fields import ArrayField
from django.db import models


class Person(models.Model):
    name = models.CharField(max_length=40, unique=True)
    born = models.DateField(null=True)
    email = models.EmailField(blank=True, db_index=True)
    friends = models.ManyToManyField("self")

    class Meta:
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=~models.Q(name=""), name="person_has_name")]


class Work(models.Model):
    title = models.SlugField(max_length=100)
    author = models.ForeignKey(Person, models.CASCADE, related_name="works")
    price = models.DecimalField(max_digits=8, decimal_places=2, default=1)
    made = models.DateTimeField(auto_now_add=True)
    spent = models.DurationField(null=True)
    key = models.UUIDField(null=True)
    data = models.BinaryField(default=b"")
    document = models.JSONField(default=dict)
    tags = ArrayField(models.CharField(max_length=10), default=list)
    rating = models.FloatField(null=True)
    copies = models.PositiveSmallIntegerField(default=0)
    with_tax = models.GeneratedField(expression=models.F("price") * 2, output_field=models.DecimalField(max_digits=9, decimal_places=2),
                                     db_persist=True)

    class Meta:
        indexes = [models.Index(fields=["author", "-price"], name="work_price"),
                   models.Index(fields=["price"], name="work_dear", condition=models.Q(price__gt=100))]
        constraints = [models.UniqueConstraint(fields=["author", "title"], name="work_once"),
                       models.UniqueConstraint(fields=["copies"], name="work_copies", condition=models.Q(copies__gt=1000)),
                       models.UniqueConstraint(fields=["key"], name="work_key")]
''')
sys.path.insert(0, folder.name)
settings.configure(
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
                    "django.contrib.messages", "django.contrib.postgres", "library"],
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": where.path[1:], "USER": where.username,
                           "HOST": where.hostname, "PORT": where.port}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    SECRET_KEY="of nobody",
    USE_TZ=True,
    TIME_ZONE="Europe/Prague",
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
)
django.setup()

# What needs a configured Django.
from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.management.color import no_style  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402
from django.db.migrations.executor import MigrationExecutor  # noqa: E402
from django.db.models import Avg, Count, Exists, F, OuterRef, Prefetch, Q, Subquery, Sum, Value, Window  # noqa: E402
from django.db.models.functions import Coalesce, Concat, Length, Lower, Now, Rank, TruncMonth  # noqa: E402
from django.utils import timezone  # noqa: E402
from library.models import Person, Work  # noqa: E402


def called(*arguments, **options):
    """What a command of Django says."""
    out = io.StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue()


@check
def migrations_of_django_and_of_ours():
    called("makemigrations", "library")
    called("migrate", verbosity=0)
    assert "No planned migration" in called("migrate", plan=True)
    same(Permission.objects.filter(codename="add_work").count(), 1)
    called("check", tags=["models", "database"], databases=["default"])
    same(MigrationExecutor(connection).migration_plan([("library", "0001_initial")]), [])


@check
def users_groups_and_sessions():
    user = User.objects.create_user("ada", "ada@example.org", "secret")
    user.groups.add(Group.objects.create(name="writers"))
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="library")[:3])
    same(User.objects.get(username="ada").check_password("secret"), True)
    same(User.objects.filter(groups__name="writers", user_permissions__isnull=False).distinct().count(), 1)
    session = SessionStore()
    session["a"] = 1
    session.save()
    same(SessionStore(session.session_key)["a"], 1)


@check
def objects_are_kept_and_found():
    person = Person.objects.create(name="Grace", born=dt.date(1906, 12, 9))
    values = {
        "price": decimal.Decimal("12.50"), "spent": dt.timedelta(days=1, seconds=5), "key": uuid.UUID(int=7), "data": b"\x00\xff",
        "document": {"a": [1, {"b": None}]}, "tags": ["x", "y"], "rating": 0.5, "copies": 3,
    }
    work = Work.objects.create(title="one", author=person, **values)
    same(work.with_tax, decimal.Decimal("25.00"))
    found = Work.objects.get(pk=work.pk)
    same({name: bytes(getattr(found, name)) if name == "data" else getattr(found, name) for name in values}, values)
    same(abs(timezone.now() - found.made) < dt.timedelta(minutes=1), True)
    found.price += 1
    found.save(update_fields=["price"])
    same(Work.objects.filter(pk=work.pk).update(price=F("price") * 2), 1)
    work.refresh_from_db()
    same(work.price, decimal.Decimal("27.00"))
    same(Person.objects.get_or_create(name="Grace")[1], False)
    same(Person.objects.update_or_create(name="Alan", defaults={"email": "a@example.org"})[1], True)
    person.friends.add(Person.objects.get(name="Alan"))
    same([friend.name for friend in Person.objects.get(name="Alan").friends.all()], ["Grace"])


@check
def many_objects_at_once():
    author = Person.objects.create(name="many")
    works = Work.objects.bulk_create([Work(title=f"t{k}", author=author, price=k, tags=[str(k)]) for k in range(700)], batch_size=300)
    same(len({work.pk for work in works}), 700)
    for work in works:
        work.copies = 9
    same(Work.objects.bulk_update(works, ["copies"], batch_size=250), 700)
    again = [Work(title="t0", author=author, price=99), Work(title="new", author=author)]
    Work.objects.bulk_create(again, update_conflicts=True, unique_fields=["author", "title"], update_fields=["price"])
    same(Work.objects.get(title="t0", author=author).price, 99)
    Person.objects.bulk_create([Person(name="many"), Person(name="other")], ignore_conflicts=True)
    same(Work.objects.filter(author=author).count(), 701)
    same(sum(1 for _ in Work.objects.filter(author=author).iterator(chunk_size=100)), 701)
    same(Work.objects.filter(author=author).delete()[0], 701)


@check
def rows_outside_of_a_block_come_through_a_cursor():
    same(connection.in_atomic_block, False)
    same(sum(1 for _ in Permission.objects.iterator(chunk_size=5)), Permission.objects.count())


@check
def queries():
    ada, bob = Person.objects.create(name="Q Ada", email="q"), Person.objects.create(name="Q Bob", email="Q")
    for person, prices in ((ada, [1, 5, 9]), (bob, [4])):
        for price in prices:
            Work.objects.create(title=f"q{price}", author=person, price=price, document={"n": price, "l": [price]}, tags=["all", f"p{price}"])
    ours = Work.objects.filter(author__name__startswith="Q ")
    counted = Person.objects.filter(name__startswith="Q ").annotate(n=Count("works"), total=Sum("works__price"), mean=Avg("works__price"))
    same(list(counted.values_list("name", "n", "total", "mean")), [("Q Ada", 3, 15, 5), ("Q Bob", 1, 4, 4)])
    newest = Work.objects.filter(author=OuterRef("pk")).order_by("-price")
    people = Person.objects.annotate(best=Subquery(newest.values("title")[:1]), any=Exists(newest.filter(price__gt=8)))
    same(list(people.filter(name__startswith="Q ").values_list("best", "any")), [("q9", True), ("q4", False)])
    ranks = ours.annotate(r=Window(Rank(), partition_by="author", order_by="-price")).filter(r=1).order_by("price")
    same([work.title for work in ranks], ["q4", "q9"])
    same(ours.filter(document__n__gte=5).count(), 2)
    same(ours.filter(document__contains={"l": [5]}).get().title, "q5")
    same(ours.filter(document__has_key="n", document__l__0=4).get().title, "q4")
    same(ours.filter(tags__contains=["all"], tags__overlap=["p1", "p4"]).count(), 2)
    same(ours.filter(tags__1="p9").get().title, "q9")
    same(ours.filter(Q(title__iexact="Q1") | Q(title__regex=r"^q[49]$"), ~Q(price=4)).count(), 2)
    same(Person.objects.filter(email__icontains="q", name__in=["Q Ada", "Q Bob"]).order_by(Lower("email"), "name").count(), 2)
    same(ours.annotate(l=Length("title"), c=Concat("title", Value("!"), output_field=models.CharField())).values_list("l", "c").first(), (2, "q1!"))
    same(ours.annotate(m=TruncMonth("made")).values("m").annotate(n=Count("id")).get()["n"], 4)
    same(ours.filter(made__date=timezone.localdate(), made__lte=Now(), made__year=timezone.localdate().year).count(), 4)
    same(ours.aggregate(s=Coalesce(Sum("price", filter=Q(price__gt=4)), decimal.Decimal(0)), n=Count("author", distinct=True)), {"s": 14, "n": 2})
    both = ours.filter(price__lt=2).union(ours.filter(price__gt=8)).order_by("price")
    same([work.title for work in both], ["q1", "q9"])
    same(list(ours.order_by("author_id", "-price").distinct("author_id").values_list("title", flat=True)), ["q9", "q4"])
    found = Person.objects.filter(name__startswith="Q ").prefetch_related(Prefetch("works", ours.order_by("price")))
    same([[work.title for work in person.works.all()] for person in found], [["q1", "q5", "q9"], ["q4"]])
    same(ours.select_related("author").filter(price__range=(4, 5)).order_by("price")[0].author.name, "Q Bob")
    assert "Index" in ours.filter(pk=1).explain(), ours.filter(pk=1).explain()
    same(ours.filter(pk__in=ours.order_by("price")[:2]).delete()[0], 2)


@check
def blocks_and_savepoints():
    with transaction.atomic():
        Person.objects.create(name="kept")
        try:
            with transaction.atomic():
                Person.objects.create(name="kept")
        except IntegrityError as error:
            same(error.__cause__.diag.constraint_name, "library_person_name_key")
        same(Person.objects.filter(name="kept").count(), 1)
        row = Person.objects.select_for_update().get(name="kept")
        done = []
        transaction.on_commit(lambda: done.append(row.pk))
    same(done, [row.pk])


@check
def foreign_keys_are_checked_at_the_end():
    with transaction.atomic():
        work = Work.objects.create(title="early", author_id=987654)
        same(Work.objects.filter(pk=work.pk).count(), 1)
        person = Person.objects.create(id=987654, name="late")
        connection.check_constraints()
    same(work.author == person, True)

    def broken():
        with transaction.atomic():
            Work.objects.create(title="never", author_id=555)

    error = fails(IntegrityError, broken)
    same(error.__cause__.sqlstate, "23503")


@check
def rows_are_locked():
    with transaction.atomic():
        same(Person.objects.select_for_update(skip_locked=True, of=("self",)).filter(name="kept").count(), 1)
        same(Person.objects.select_for_update(nowait=True, no_key=True).get(name="kept").name, "kept")


@check
def data_are_dumped_and_loaded():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(called("dumpdata", "auth", natural_foreign=True))
        file.flush()
        count = Permission.objects.count()
        people = list(Person.objects.values("id", "name", "email"))
        called("flush", interactive=False)
        same((User.objects.count(), Person.objects.count()), (0, 0))
        Person.objects.bulk_create([Person(**person) for person in people])
        called("loaddata", file.name)
        same((User.objects.get().username, Permission.objects.count()), ("ada", count))
    # Sequences are set to what was loaded.
    statements = connection.ops.sequence_reset_sql(no_style(), [User, Group])
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    same(User.objects.create_user("bob").pk, User.objects.get(username="ada").pk + 1)


CHANGED = [
    ('email = models.EmailField(blank=True, db_index=True)', 'mail = models.EmailField(blank=True, db_index=True)'),
    ('born = models.DateField(null=True)', 'born = models.DateTimeField(null=True)\n    age = models.IntegerField(default=7, db_index=True)'),
    ('rating = models.FloatField(null=True)', 'rating = models.DecimalField(max_digits=5, decimal_places=1, null=True)'),
    ('models.ForeignKey(Person, models.CASCADE, related_name="works")', 'models.ForeignKey(Person, models.SET_NULL, null=True, related_name="works")'),
    ('copies = models.PositiveSmallIntegerField(default=0)', 'copies = models.BigIntegerField(default=0, db_comment="how many")'),
    ('name="work_price"', 'name="work_by_price"'),
]


@check
def a_migration_that_changes_tables():
    text = (application / "models.py").read_text()
    for old, new in CHANGED:
        assert old in text, old
        text = text.replace(old, new)
    text += "\n\nclass Extra(models.Model):\n    work = models.OneToOneField(Work, models.PROTECT)\n    n = models.AutoField(primary_key=True)\n"
    # Django keeps the models that it began with; the migration is written by a Django of its own.
    (application / "models.py").write_text(text)
    script = "import json, sys\nsys.path.insert(0, sys.argv[1])\n" + WITH_SETTINGS
    done = subprocess.run([sys.executable, "-c", script, folder.name, json.dumps(settings.DATABASES["default"])], capture_output=True, text=True)
    same((done.returncode, done.stderr[-1500:]), (0, ""))
    with connection.cursor() as cursor:
        columns = {column.name: column for column in connection.introspection.get_table_description(cursor, "library_person")}
        same(list(columns), ["id", "name", "born", "mail", "age"])
        constraints = connection.introspection.get_constraints(cursor, "library_work")
        same("work_by_price" in constraints and "work_price" not in constraints, True)
        same(constraints["work_once"]["unique"], True)
        cursor.execute("SELECT mail FROM library_person WHERE name = 'Q Ada'")
        same(cursor.fetchone(), ("q",))


WITH_SETTINGS = '''
import django
from django.conf import settings

settings.configure(INSTALLED_APPS=["django.contrib.postgres", "library"], DATABASES={"default": json.loads(sys.argv[2])},
                   DEFAULT_AUTO_FIELD="django.db.models.BigAutoField", USE_TZ=True)
django.setup()
from django.core.management import call_command
from django.db.migrations.questioner import InteractiveMigrationQuestioner, MigrationQuestioner

# All that looks renamed is.
for question in ("ask_rename", "ask_rename_model"):
    setattr(InteractiveMigrationQuestioner, question, lambda *_: True)
call_command("makemigrations", "library", verbosity=0)
call_command("migrate", "library", verbosity=0)
call_command("migrate", "library", "0001", verbosity=0)
call_command("migrate", "library", verbosity=0)
'''


@check
def inspectdb_reads_the_schema():
    text = called("inspectdb")
    for wanted in ("class LibraryPerson(models.Model):", "name = models.CharField(unique=True, max_length=40)",
                   "author = models.ForeignKey(LibraryPerson, models.DO_NOTHING", "price = models.DecimalField(max_digits=8, decimal_places=2)",
                   "unique_together = (('author', 'title'),)", "document = models.JSONField()", "key = models.UUIDField(unique=True"):
        assert wanted in text, (wanted, text)
    compile(text, "inspected", "exec")


run()
