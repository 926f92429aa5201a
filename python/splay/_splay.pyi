"""The compiled half of ``splay``. Its stubs are split by topic."""

from splay._answer import Answer as Answer
from splay._answer import Batches as Batches
from splay._answer import Kept as Kept
from splay._answer import Stats as Stats
from splay._capture import Capture as Capture
from splay._database import Database as Database
from splay._database import Prepared as Prepared
from splay._database import open as open
from splay._database import recipes as recipes
from splay._lab import lab_best as lab_best
from splay._lab import lab_choose as lab_choose
from splay._lab import lab_compression as lab_compression
from splay._lab import lab_extremes as lab_extremes
from splay._lab import lab_front as lab_front
from splay._lab import lab_generate as lab_generate
from splay._lab import lab_load as lab_load
from splay._lab import lab_save as lab_save
from splay._lab import lab_totals as lab_totals
from splay._reports import Commit as Commit
from splay._reports import CompactReport as CompactReport
from splay._reports import FileReport as FileReport
from splay._reports import LoadReport as LoadReport
from splay._reports import Partition as Partition
from splay._reports import Problem as Problem
from splay._reports import PublishReport as PublishReport
from splay._reports import Source as Source
from splay._table import Schema as Schema
from splay._table import Table as Table

__version__: str
