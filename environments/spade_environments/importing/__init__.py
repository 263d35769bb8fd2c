"""Importing: environments of other shapes as files of ours, by their text alone; nothing is executed here."""

from .native import ImportedSource, imported
from .shapes import FoundClass, Shape, classes_in
from .targets import SourceFile, source_files

__all__ = ["FoundClass", "ImportedSource", "Shape", "SourceFile", "classes_in", "imported", "source_files"]
